// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/node_allocatable.h"

#include <utility>

#include "kube/json_reader.h"

namespace dracpu::kube {

Result<Quantity> parse_allocatable(std::string_view json, std::string_view resource) {
  const Result<boost::json::value> root = parse_json_object(json);
  if (!root.ok()) return root.error();
  JsonErrors errors;
  const JsonObject fields(errors, &root->get_object(), "");
  const JsonObject allocatable = fields.object("status").object("allocatable");
  const std::string text = allocatable.text(resource);
  if (text.empty()) allocatable.expected(resource, "a quantity");
  if (errors.first()) return *errors.first();
  Result<Quantity> amount = Quantity::parse(text);
  if (amount.ok()) return amount;
  return make_error(Errc::kCorrupt, "{}: {}", allocatable.path_of(resource), amount.error().text);
}

void get_allocatable(HttpClient& client, const std::string& node, const std::string& resource,
                     Deadline deadline, std::function<void(Result<Quantity>)> done) {
  Request request;
  request.path = "/api/v1/nodes/" + url_escape(node);
  client.send(std::move(request), deadline,
              [step = fmt::format("reading node \"{}\"", node), resource,
               done = std::move(done)](Result<Response> answer) {
                if (!answer.ok()) return done(std::move(answer).error().while_doing(step));
                if (!answer->ok()) {
                  Error error = status_error(*answer);
                  if (error.code != Errc::kNotFound) error.code = Errc::kUnavailable;
                  return done(std::move(error).while_doing(step));
                }
                Result<Quantity> amount = parse_allocatable(answer->body, resource);
                if (!amount.ok()) return done(std::move(amount).error().while_doing(step));
                done(std::move(amount));
              });
}

}  // namespace dracpu::kube

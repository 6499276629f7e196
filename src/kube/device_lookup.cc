// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/device_lookup.h"

#include <utility>

#include "kube/api_status.h"
#include "kube/json_reader.h"

namespace dracpu::kube {

Result<std::vector<std::string>> find_attribute(std::string_view slice_list, const DeviceName& device,
                                                std::string_view attribute) {
  const Result<boost::json::value> root = parse_json_object(slice_list);
  if (!root.ok()) return root.error();
  JsonErrors errors;
  std::vector<std::string> out;
  bool is_there = false;
  for (const JsonObject& slice : JsonObject(errors, &root->get_object(), "").objects("items")) {
    const JsonObject spec = slice.object("spec");
    if (spec.text("driver") != device.driver || spec.object("pool").text("name") != device.pool) continue;
    for (const JsonObject& item : spec.objects("devices")) {
      if (item.text("name") != device.device) continue;
      is_there = true;
      const JsonObject value = item.object("attributes").object(attribute);
      if (!value.present()) continue;
      if (value.find("string") != nullptr) out.push_back(value.text("string"));
      for (std::string& text : value.texts("strings")) out.push_back(std::move(text));
    }
  }
  if (errors.first()) return *errors.first();
  if (!out.empty()) return out;
  return make_error(
      Errc::kNotFound, "device \"{}\" of driver {}, pool \"{}\": {}", device.device, device.driver,
      device.pool,
      is_there ? fmt::format("no attribute {}", attribute) : std::string("not published on this node"));
}

void get_attribute(HttpClient& client, const std::string& node, const DeviceName& device,
                   const std::string& attribute, Deadline deadline,
                   std::function<void(Result<std::vector<std::string>>)> done) {
  Request request;
  request.path = "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=" +
                 url_escape(fmt::format("spec.driver={},spec.nodeName={}", device.driver, node));
  const std::string step = fmt::format("reading slices of driver {}", device.driver);
  client.send(std::move(request), deadline,
              [step, device, attribute, done = std::move(done)](Result<Response> answer) {
                if (!answer.ok()) return done(std::move(answer).error().while_doing(step));
                if (!answer->ok()) return done(status_error(*answer).while_doing(step));
                Result<std::vector<std::string>> found = find_attribute(answer->body, device, attribute);
                if (!found.ok()) return done(std::move(found).error().while_doing(step));
                done(std::move(found));
              });
}

}  // namespace dracpu::kube

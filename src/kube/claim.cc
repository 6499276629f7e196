// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/claim.h"

#include "base/escape.h"
#include "kube/json_reader.h"

namespace dracpu::kube {
namespace {

constexpr std::string_view kPodClaimName = "resource.kubernetes.io/pod-claim-name";

std::map<std::string, Quantity> read_amounts(const JsonObject& from) {
  std::map<std::string, Quantity> out;
  if (!from.present()) return out;
  for (const auto& [key, value] : *from.raw()) {
    // The server always writes text; a bare whole number is legal input (5.12).
    if (value.is_int64()) {
      out.insert_or_assign(key, Quantity(value.get_int64()));
      continue;
    }
    if (!value.is_string()) {
      from.expected(key, fmt::format("a quantity such as \"4\", found {}",
                                     printable(boost::json::serialize(value), 40)));
      continue;
    }
    const Result<Quantity> amount = Quantity::parse({value.get_string().data(), value.get_string().size()});
    if (amount.ok()) {
      out.insert_or_assign(key, *amount);
    } else {
      from.expected(key, fmt::format("a quantity ({})", amount.error().text));
    }
  }
  return out;
}

DeviceRequest read_device_request(const JsonObject& from) {
  DeviceRequest out;
  out.name = from.text("name");
  out.device_class = from.text("deviceClassName");
  out.mode = from.text("allocationMode");
  out.count = from.integer("count");
  out.admin_access = from.flag("adminAccess");
  out.capacity = read_amounts(from.object("capacity").object("requests"));
  return out;
}

ClaimRequest read_request(const JsonObject& from) {
  ClaimRequest out;
  out.name = from.text("name");
  if (const JsonObject exactly = from.object("exactly"); exactly.present()) {
    out.exactly = read_device_request(exactly);
  }
  for (const JsonObject& sub : from.objects("firstAvailable"))
    out.first_available.push_back(read_device_request(sub));
  return out;
}

AllocationResult read_result(const JsonObject& from) {
  AllocationResult out;
  out.request = from.text("request");
  out.driver = from.text("driver");
  out.pool = from.text("pool");
  out.device = from.text("device");
  out.admin_access = from.flag("adminAccess");
  if (from.find("shareID") != nullptr) out.share_id = from.text("shareID");
  out.consumed_capacity = read_amounts(from.object("consumedCapacity"));
  return out;
}

// An entry of the claim's spec, which has no source of its own.
ConfigEntry read_own_config(const JsonObject& from) {
  ConfigEntry out;
  out.requests = from.texts("requests");
  const JsonObject opaque = from.object("opaque");
  if (!opaque.present()) return out;
  out.opaque = true;
  out.driver = opaque.text("driver");
  if (const boost::json::value* found = opaque.find("parameters"))
    out.parameters = boost::json::serialize(*found);
  return out;
}

ConfigEntry read_config(const JsonObject& from) {
  ConfigEntry out = read_own_config(from);
  const std::string source = from.text("source");
  // Anything but the class is taken as the user's own: the side with fewer rights (section 8.3).
  out.source = source == "FromClass" ? ConfigEntry::Source::kClass : ConfigEntry::Source::kClaim;
  if (source != "FromClass" && source != "FromClaim") from.expected("source", "FromClass or FromClaim");
  return out;
}

Claim read_claim(const JsonObject& root) {
  Claim out;
  const JsonObject metadata = root.object("metadata");
  out.ns = metadata.text("namespace");
  out.name = metadata.text("name");
  out.uid = ClaimUid(metadata.text("uid"));
  out.deleting = metadata.find("deletionTimestamp") != nullptr;
  out.pod_claim_name = metadata.object("annotations").text(kPodClaimName);

  const JsonObject devices = root.object("spec").object("devices");
  for (const JsonObject& item : devices.objects("requests")) out.requests.push_back(read_request(item));
  for (const JsonObject& item : devices.objects("constraints")) {
    out.constraints.push_back({item.texts("requests"), item.text("matchAttribute")});
  }
  for (const JsonObject& item : devices.objects("config")) out.config.push_back(read_own_config(item));
  const JsonObject status = root.object("status");
  if (const JsonObject allocation = status.object("allocation"); allocation.present()) {
    const JsonObject allocated = allocation.object("devices");
    Allocation& into = out.allocation.emplace();
    for (const JsonObject& item : allocated.objects("results")) into.results.push_back(read_result(item));
    for (const JsonObject& item : allocated.objects("config")) into.config.push_back(read_config(item));
  }
  for (const JsonObject& item : status.objects("reservedFor")) {
    out.reserved_for.push_back(
        {item.text("apiGroup"), item.text("resource"), item.text("name"), item.text("uid")});
  }
  return out;
}

}  // namespace

Result<Claim> parse_claim(std::string_view json) {
  const Result<boost::json::value> root = parse_json_object(json);
  if (!root.ok()) return root.error();
  JsonErrors errors;
  const JsonObject fields(errors, &root->get_object(), "");
  Claim out = read_claim(fields);
  if (out.name.empty()) errors.expected("metadata.name", "a name");
  if (out.uid.get().empty()) errors.expected("metadata.uid", "a uid");
  if (errors.first()) return *errors.first();
  return out;
}

void get_claim(HttpClient& client, const std::string& ns, const std::string& name, Deadline deadline,
               std::function<void(Result<Claim>)> done) {
  Request request;
  request.path = fmt::format("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}", url_escape(ns),
                             url_escape(name));
  const std::string step = fmt::format("reading claim \"{}/{}\"", ns, name);
  client.send(std::move(request), deadline, [step, done = std::move(done)](Result<Response> answer) {
    if (!answer.ok()) return done(std::move(answer).error().while_doing(step));
    if (!answer->ok()) {
      Error error = status_error(*answer);
      if (error.code != Errc::kNotFound) error.code = Errc::kUnavailable;
      return done(std::move(error).while_doing(step));
    }
    Result<Claim> claim = parse_claim(answer->body);
    if (!claim.ok()) return done(std::move(claim).error().while_doing(step));
    done(std::move(claim));
  });
}

std::string_view base_request(std::string_view request) { return request.substr(0, request.find('/')); }

}  // namespace dracpu::kube

// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "api_store.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <ctime>

#include "base/strings.h"

namespace dracpu::sandbox {
namespace {

namespace json = boost::json;

std::string text_at(const json::object& o, std::string_view outer, std::string_view inner) {
  const json::value* v = o.if_contains(outer);
  if (v == nullptr || !v->is_object()) return {};
  const json::value* w = v->get_object().if_contains(inner);
  return w != nullptr && w->is_string() ? std::string(w->get_string()) : std::string();
}

json::object& metadata_of(json::object& o) {
  json::value& v = o["metadata"];
  return v.is_object() ? v.get_object() : v.emplace_object();
}

std::string now_text() {
  const std::time_t t = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&t, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string new_uid() {
  const std::string h = random_hex(16);
  return fmt::format("{}-{}-4{}-8{}-{}", h.substr(0, 8), h.substr(8, 4), h.substr(13, 3), h.substr(17, 3),
                     h.substr(20, 12));
}

// The server's suffix for generateName (spec 6.2).
std::string name_suffix() {
  static constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  const std::string h = random_hex(10);
  std::string out;
  for (std::size_t i = 0; i < 5; ++i)
    out += kLetters[std::stoul(h.substr(i * 4, 4), nullptr, 16) % kLetters.size()];
  return out;
}

std::string field_of(const json::object& object, const std::string& field) {
  if (field == "metadata.name") return text_at(object, "metadata", "name");
  if (field == "spec.driver") return text_at(object, "spec", "driver");
  if (field == "spec.nodeName") return text_at(object, "spec", "nodeName");
  return {};
}

bool matches(const json::object& object, const std::map<std::string, std::string>& fields) {
  for (const auto& [field, value] : fields) {
    if (field_of(object, field) != value) return false;
  }
  return true;
}

// "a=b,c=d". Nothing for a field that slices cannot be selected by.
std::optional<std::map<std::string, std::string>> parse_selector(const std::string& text) {
  std::map<std::string, std::string> out;
  if (text.empty()) return out;
  for (const std::string_view part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string field(part.substr(0, equals));
    if (field != "metadata.name" && field != "spec.driver" && field != "spec.nodeName") return std::nullopt;
    out[field] = std::string(part.substr(equals + 1));
  }
  return out;
}

std::string decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

ApiReply ok(const json::object& object, unsigned status = 200) {
  return {status, json::serialize(object), {}};
}

std::optional<json::object> parse_object(std::string_view body) {
  boost::system::error_code ec;
  json::value v = json::parse(body, ec);
  if (ec || !v.is_object()) return std::nullopt;
  return std::move(v.get_object());
}

std::string event_line(std::string_view type, const json::object& object) {
  return json::serialize(json::object{{"type", type}, {"object", object}}) + "\n";
}

}  // namespace

ApiTarget parse_target(std::string_view target) {
  ApiTarget out;
  const std::size_t mark = target.find('?');
  out.path = decode(target.substr(0, mark));
  if (mark == std::string_view::npos) return out;
  for (const std::string_view part : split(target.substr(mark + 1), '&')) {
    const std::size_t equals = part.find('=');
    if (equals != std::string_view::npos)
      out.query[decode(part.substr(0, equals))] = decode(part.substr(equals + 1));
  }
  return out;
}

ApiReply api_error(unsigned code, std::string_view reason, std::string_view message,
                   const std::vector<Cause>& causes) {
  json::object details;
  if (!causes.empty()) {
    json::array list;
    for (const Cause& c : causes) {
      list.push_back(
          json::object{{"reason", "FieldValueInvalid"}, {"message", c.message}, {"field", c.field}});
    }
    details["causes"] = std::move(list);
  }
  const json::object status{{"kind", "Status"},    {"apiVersion", "v1"}, {"metadata", json::object{}},
                            {"status", "Failure"}, {"message", message}, {"reason", reason},
                            {"details", details},  {"code", code}};
  return {code, json::serialize(status), {}};
}

ApiStore::Route ApiStore::route(const std::string& path) {
  Route r;
  const std::vector<std::string_view> part = split(path, '/');  // part[0] is empty
  const auto at = [&](std::size_t i) { return i < part.size() ? std::string(part[i]) : std::string(); };
  std::size_t i = 0;
  if (at(1) == "api" && at(2) == "v1") {
    r.api_version = "v1";
    i = 3;
  } else if (at(1) == "apis" && (at(2) == "resource.k8s.io" || at(2) == "events.k8s.io") && at(3) == "v1") {
    r.api_version = at(2) + "/v1";
    i = 4;
  } else {
    return r;
  }
  if (at(i) == "namespaces") {
    r.ns = at(i + 1);
    i += 2;
  }
  r.plural = at(i);
  r.name = at(i + 1);
  r.subresource = at(i + 2);
  const bool group = r.api_version == "resource.k8s.io/v1";
  if (r.plural == "nodes" && r.api_version == "v1") r.kind = "Node";
  if (r.plural == "resourceslices" && group) r.kind = "ResourceSlice";
  if (r.plural == "resourceclaims" && group) r.kind = "ResourceClaim";
  if (r.plural == "events" && !group) r.kind = "Event";
  r.known = !r.kind.empty() && part.size() <= i + 3 && (r.subresource.empty() || r.subresource == "status");
  return r;
}

bool ApiStore::allowed(Caller caller, std::string_view verb, const Route& r) {
  if (caller == Caller::kSandbox) return true;
  if (!r.subresource.empty()) return false;
  if (r.plural == "nodes" || r.plural == "resourceclaims") return verb == "GET" && !r.name.empty();
  if (r.plural == "resourceslices") return true;
  return r.plural == "events" && (verb == "POST" || verb == "PATCH");
}

std::string ApiStore::key(const Route& r, const std::string& name) {
  return r.ns.empty() ? name : r.ns + "/" + name;
}

ApiReply ApiStore::handle(Caller caller, std::string_view method, std::string_view target,
                          std::string_view body) {
  if (caller == Caller::kNobody) return api_error(401, "Unauthorized", "Unauthorized");
  const ApiTarget parsed = parse_target(target);
  const Route r = route(parsed.path);
  if (!r.known) return discovery(parsed.path);
  if (!allowed(caller, method, r)) {
    return api_error(
        403, "Forbidden",
        fmt::format("{} \"{}\" is forbidden: the driver's role does not allow it", method, parsed.path));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (method == "GET") return get_or_list(r, parsed);
  if (method == "POST" && r.name.empty()) return post(r, body);
  if (method == "PUT" && !r.name.empty()) return put(r, body);
  if (method == "DELETE" && !r.name.empty()) return remove(r, body);
  if (method == "PATCH" && r.plural == "events")
    return ok({{"kind", "Event"}, {"apiVersion", r.api_version}});
  return api_error(405, "MethodNotAllowed",
                   "the server does not allow this method on the requested resource");
}

ApiReply ApiStore::discovery(const std::string& path) const {
  if (path == "/version") {
    return ok({{"major", "1"},
               {"minor", std::to_string(profile_.minor)},
               {"gitVersion", fmt::format("v1.{}.0-sandbox", profile_.minor)}});
  }
  if (path == "/apis/resource.k8s.io/v1") {
    const json::array resources{
        json::object{{"name", "resourceslices"}, {"namespaced", false}, {"kind", "ResourceSlice"}},
        json::object{{"name", "resourceclaims"}, {"namespaced", true}, {"kind", "ResourceClaim"}}};
    return ok({{"kind", "APIResourceList"},
               {"apiVersion", "v1"},
               {"groupVersion", "resource.k8s.io/v1"},
               {"resources", resources}});
  }
  return api_error(404, "NotFound", "the server could not find the requested resource");
}

ApiReply ApiStore::get_or_list(const Route& r, const ApiTarget& target) const {
  const auto all = objects_.find(r.plural);
  if (!r.name.empty()) {
    if (all != objects_.end()) {
      if (const auto it = all->second.find(key(r, r.name)); it != all->second.end()) return ok(it->second);
    }
    return api_error(404, "NotFound", fmt::format("{} \"{}\" not found", r.plural, r.name));
  }
  const auto it = target.query.find("fieldSelector");
  const auto fields = parse_selector(it == target.query.end() ? "" : it->second);
  if (!fields) return api_error(400, "BadRequest", "field label not supported");
  json::array items;
  if (all != objects_.end()) {
    for (const auto& [name, object] : all->second) {
      if (!matches(object, *fields)) continue;
      json::object item = object;
      item.erase("kind");
      item.erase("apiVersion");
      items.push_back(std::move(item));
    }
  }
  return ok({{"kind", r.kind + "List"},
             {"apiVersion", r.api_version},
             {"metadata", json::object{{"resourceVersion", std::to_string(version_)}}},
             {"items", std::move(items)}});
}

std::optional<ApiReply> ApiStore::admit(const Route& r, json::object& object, std::string& warning) const {
  const std::string kind =
      object.contains("kind") && object["kind"].is_string() ? std::string(object["kind"].get_string()) : "";
  if (kind != r.kind) {
    return api_error(400, "BadRequest", fmt::format("the kind \"{}\" does not match \"{}\"", kind, r.kind));
  }
  if (r.plural != "resourceslices") return std::nullopt;
  for (const std::string& field : drop_closed_fields(profile_, object)) {
    warning += fmt::format("{}299 - \"unknown field \\\"{}\\\"\"", warning.empty() ? "" : ", ", field);
  }
  const std::vector<Cause> causes = check_slice(profile_, object);
  if (!causes.empty()) {
    std::string all;
    for (const Cause& c : causes) all += fmt::format("{}{}: {}", all.empty() ? "" : ", ", c.field, c.message);
    return api_error(422, "Invalid", fmt::format("ResourceSlice.resource.k8s.io is invalid: {}", all),
                     causes);
  }
  write_canonical_amounts(object);
  return std::nullopt;
}

void ApiStore::record(std::string type, const Route& r, json::object before, json::object& object) {
  ++version_;
  metadata_of(object)["resourceVersion"] = std::to_string(version_);
  history_.push_back({version_, r.plural, std::move(type), object, std::move(before)});
  changed_.notify_all();
}

ApiReply ApiStore::post(const Route& r, std::string_view body) {
  std::optional<json::object> object = parse_object(body);
  if (!object) return api_error(400, "BadRequest", "the body is not a JSON object");
  std::string warning;
  if (std::optional<ApiReply> refused = admit(r, *object, warning)) return *std::move(refused);
  json::object& meta = metadata_of(*object);
  std::string name = text_at(*object, "metadata", "name");
  if (const std::string prefix = text_at(*object, "metadata", "generateName");
      name.empty() && !prefix.empty()) {
    name = prefix.substr(0, 58) + name_suffix();
  }
  if (name.empty())
    return api_error(422, "Invalid", "metadata.name: Required value: name or generateName is required");
  if (text_at(*object, "metadata", "resourceVersion") != "") {
    return api_error(422, "Invalid", "resourceVersion should not be set on objects to be created");
  }
  Objects& all = objects_[r.plural];
  if (all.contains(key(r, name))) {
    return api_error(409, "AlreadyExists", fmt::format("{} \"{}\" already exists", r.plural, name));
  }
  meta["name"] = name;
  if (!r.ns.empty()) meta["namespace"] = r.ns;
  meta["uid"] = new_uid();
  meta["creationTimestamp"] = now_text();
  meta["generation"] = 1;
  if (r.plural == "resourceclaims") object->erase("status");
  record("ADDED", r, {}, *object);
  all[key(r, name)] = *object;
  ApiReply reply = ok(*object, 201);
  reply.warning = std::move(warning);
  return reply;
}

ApiReply ApiStore::put(const Route& r, std::string_view body) {
  std::optional<json::object> object = parse_object(body);
  if (!object) return api_error(400, "BadRequest", "the body is not a JSON object");
  Objects& all = objects_[r.plural];
  const auto it = all.find(key(r, r.name));
  if (it == all.end())
    return api_error(404, "NotFound", fmt::format("{} \"{}\" not found", r.plural, r.name));
  const json::object before = it->second;
  const std::string given = text_at(*object, "metadata", "resourceVersion");
  if (!given.empty() && given != text_at(before, "metadata", "resourceVersion")) {
    return api_error(
        409, "Conflict",
        fmt::format("Operation cannot be fulfilled on {} \"{}\": the object has been modified; please "
                    "apply your changes to the latest version and try again",
                    r.plural, r.name));
  }
  if (const std::string uid = text_at(*object, "metadata", "uid");
      !uid.empty() && uid != text_at(before, "metadata", "uid")) {
    return api_error(409, "Conflict", "Precondition failed: UID in precondition differs");
  }
  std::string warning;
  if (std::optional<ApiReply> refused = admit(r, *object, warning)) return *std::move(refused);
  if (const std::vector<Cause> causes = check_slice_change(before, *object);
      r.plural == "resourceslices" && !causes.empty()) {
    return api_error(422, "Invalid", fmt::format("{}: {}", causes[0].field, causes[0].message), causes);
  }
  json::object after = *object;
  if (r.plural == "resourceclaims") {
    // spec and status are written through two doors.
    after = before;
    const std::string_view part = r.subresource.empty() ? "spec" : "status";
    if (part == "spec" && (*object)["spec"] != before.at("spec"))
      return api_error(422, "Invalid", "spec: field is immutable");
    if (object->contains(part)) after[part] = object->at(part);
  }
  json::object& meta = metadata_of(after);
  const json::object& meta_before = before.at("metadata").get_object();
  for (const char* fixed :
       {"name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion"}) {
    if (meta_before.contains(fixed)) meta[fixed] = meta_before.at(fixed);
  }
  ApiReply reply;
  if (after != before) {
    const json::value* spec = before.if_contains("spec");
    if (spec != nullptr && after.contains("spec") && after["spec"] != *spec) {
      meta["generation"] = meta["generation"].get_int64() + 1;
    }
    record("MODIFIED", r, before, after);
    it->second = after;
  }
  reply = ok(after);
  reply.warning = std::move(warning);
  return reply;
}

ApiReply ApiStore::remove(const Route& r, std::string_view body) {
  Objects& all = objects_[r.plural];
  const auto it = all.find(key(r, r.name));
  if (it == all.end())
    return api_error(404, "NotFound", fmt::format("{} \"{}\" not found", r.plural, r.name));
  if (!body.empty()) {
    const std::optional<json::object> options = parse_object(body);
    if (!options) return api_error(400, "BadRequest", "the body is not a JSON object");
    for (const char* field : {"uid", "resourceVersion"}) {
      const std::string wanted = text_at(*options, "preconditions", field);
      if (!wanted.empty() && wanted != text_at(it->second, "metadata", field)) {
        return api_error(409, "Conflict", fmt::format("Precondition failed: {} differs", field));
      }
    }
  }
  json::object object = it->second;
  all.erase(it);
  record("DELETED", r, {}, object);
  return ok(object);
}

ApiStore::WatchStart ApiStore::watch(Caller caller, std::string_view target) {
  if (caller == Caller::kNobody) return {std::nullopt, api_error(401, "Unauthorized", "Unauthorized")};
  const ApiTarget parsed = parse_target(target);
  const Route r = route(parsed.path);
  if (!r.known || !r.name.empty()) return {std::nullopt, api_error(404, "NotFound", "no such collection")};
  if (!allowed(caller, "GET", r)) return {std::nullopt, api_error(403, "Forbidden", "watch is forbidden")};
  const auto query = [&](const char* name) {
    const auto it = parsed.query.find(name);
    return it == parsed.query.end() ? std::string() : it->second;
  };
  if (query("sendInitialEvents") == "true") {
    return {std::nullopt, api_error(422, "Invalid", "sendInitialEvents is forbidden for watch")};
  }
  const auto fields = parse_selector(query("fieldSelector"));
  if (!fields) return {std::nullopt, api_error(400, "BadRequest", "field label not supported")};
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string since = query("resourceVersion");
  const std::uint64_t version =
      since.empty() || since == "0" ? version_ : parse_number<std::uint64_t>(since).value_or(0);
  if (version < oldest_) {
    return {std::nullopt,
            api_error(410, "Expired", fmt::format("too old resource version: {} ({})", version, oldest_))};
  }
  return {Watch{r.plural, *fields, version, query("allowWatchBookmarks") == "true"}, {}};
}

ApiStore::Events ApiStore::next(Watch& watch, std::chrono::milliseconds wait) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto news = [&] { return version_ > watch.version || watch.version < oldest_; };
  if (!news()) changed_.wait_for(lock, wait);
  Events out;
  if (watch.version < oldest_) {
    const std::optional<json::object> status =
        parse_object(api_error(410, "Expired", "too old resource version").body);
    return {event_line("ERROR", *status), true};
  }
  for (const Event& e : history_) {
    if (e.version <= watch.version || e.plural != watch.plural) continue;
    const bool in = matches(e.object, watch.fields);
    const bool was_in = e.type == "MODIFIED" ? matches(e.before, watch.fields) : in;
    if (!in && !was_in) continue;
    const std::string_view type = in == was_in ? std::string_view(e.type) : in ? "ADDED" : "DELETED";
    out.lines += event_line(type, e.object);
  }
  watch.version = version_;
  return out;
}

std::string ApiStore::bookmark(const Watch& watch) const {
  const std::string kind = watch.plural == "resourceslices" ? "ResourceSlice" : "Status";
  return event_line("BOOKMARK",
                    {{"kind", kind},
                     {"apiVersion", "resource.k8s.io/v1"},
                     {"metadata", json::object{{"resourceVersion", std::to_string(watch.version)}}}});
}

void ApiStore::expire_history() {
  const std::lock_guard<std::mutex> lock(mutex_);
  history_.clear();
  oldest_ = ++version_;
  changed_.notify_all();
}

void ApiStore::interrupt() {
  const std::lock_guard<std::mutex> lock(mutex_);
  changed_.notify_all();
}

std::vector<json::object> ApiStore::list(const std::string& plural) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<json::object> out;
  if (const auto it = objects_.find(plural); it != objects_.end()) {
    for (const auto& [name, object] : it->second) out.push_back(object);
  }
  return out;
}

std::optional<json::object> ApiStore::get(const std::string& plural, const std::string& name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto all = objects_.find(plural);
  if (all == objects_.end()) return std::nullopt;
  const auto it = all->second.find(name);
  return it == all->second.end() ? std::nullopt : std::optional<json::object>(it->second);
}

ApiReply ApiStore::create(const std::string& path, const json::object& object) {
  return handle(Caller::kSandbox, "POST", path, json::serialize(object));
}

std::uint64_t ApiStore::version() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return version_;
}

}  // namespace dracpu::sandbox

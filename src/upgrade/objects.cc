// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "upgrade/objects.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"
#include "kube/json_reader.h"

namespace dracpu::upgrade {
namespace {

namespace json = boost::json;
using kube::JsonErrors;
using kube::JsonObject;

// Under which the program and its image were known.
constexpr std::array<std::string_view, 2> kNames = {"dracpu", "dra-driver-cpu"};
// The standalone driver for memory: its program and labels, and its images.
constexpr std::array<std::string_view, 3> kMemoryNames = {"dramemory", "dramem", "dra-driver-memory"};

bool is_our_name(std::string_view name) {
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// "registry:5000/dra/dra-driver-cpu:v1@sha256:…" → "dra-driver-cpu".
std::string_view image_name(std::string_view image) {
  image = last_part(image.substr(0, image.find('@')));
  return image.substr(0, image.find(':'));
}

std::map<std::string, std::string> read_texts(const JsonObject& from) {
  std::map<std::string, std::string> out;
  if (!from.present()) return out;
  for (const auto& [key, value] : *from.raw()) out[std::string(key)] = from.text(key);
  return out;
}

std::string value_in(const std::map<std::string, std::string>& map, const std::string& key) {
  const auto it = map.find(key);
  return it == map.end() ? std::string() : it->second;
}

void read_expressions(const JsonObject& from, std::vector<std::string>& out) {
  for (const JsonObject& selector : from.objects("selectors")) {
    std::string text = selector.object("cel").text("expression");
    if (!text.empty()) out.push_back(std::move(text));
  }
}

// What parse_claim() leaves out of a spec.
void read_spec(const JsonObject& spec, ClaimObject& out) {
  for (const JsonObject& request : spec.object("devices").objects("requests")) {
    read_expressions(request.object("exactly"), out.expressions);
    for (const JsonObject& sub : request.objects("firstAvailable")) read_expressions(sub, out.expressions);
  }
}

Result<ClaimObject> read_any_claim(const json::object& like_claim, bool is_template) {
  Result<kube::Claim> claim = kube::parse_claim(json::serialize(like_claim));
  if (!claim.ok()) return std::move(claim).error();
  JsonErrors errors;
  ClaimObject out;
  out.is_template = is_template;
  out.claim = *std::move(claim);
  read_spec(JsonObject(errors, &like_claim, "").object("spec"), out);
  if (errors.first()) return *errors.first();
  return out;
}

// The config maps among the volumes, by volume.
std::map<std::string, DriverSet::Mount> read_volumes(const JsonObject& pod) {
  std::map<std::string, DriverSet::Mount> out;
  for (const JsonObject& volume : pod.objects("volumes")) {
    const JsonObject map = volume.object("configMap");
    DriverSet::Mount& mount = out[volume.text("name")];
    mount.config_map = map.text("name");
    for (const JsonObject& item : map.objects("items")) mount.files[item.text("path")] = item.text("key");
  }
  return out;
}

void read_container(const JsonObject& container, std::map<std::string, DriverSet::Mount> volumes,
                    DriverSet& out) {
  out.words = container.texts("command");
  for (std::string& word : container.texts("args")) out.words.push_back(std::move(word));
  if (!out.words.empty() && !out.words.front().starts_with('-')) out.words.erase(out.words.begin());
  for (const JsonObject& mount : container.objects("volumeMounts")) {
    DriverSet::Mount at = volumes[mount.text("name")];
    at.path = mount.text("mountPath");
    while (at.path.size() > 1 && at.path.ends_with('/')) at.path.pop_back();
    if (at.path == "/run/dracpu") out.is_this_driver = true;
    // A single file of the volume: the mount's path is the file itself.
    if (const std::string file = mount.text("subPath"); !file.empty()) {
      const std::string key = at.files.contains(file) ? at.files[file] : file;
      at.files = {{std::string(last_part(at.path)), key}};
      at.path.erase(at.path.rfind('/'));
    }
    out.mounts.push_back(std::move(at));
  }
  for (const JsonObject& variable : container.objects("env")) {
    if (variable.text("name") == "DRACPU_STANDBY_READY" && variable.text("value") == "true")
      out.is_standby_ready = true;
  }
}

bool runs_driver(const JsonObject& container) {
  std::vector<std::string> words = container.texts("command");
  for (std::string& word : container.texts("args")) words.push_back(std::move(word));
  return (!words.empty() && last_part(words.front()) == "dracpu") ||
         is_our_name(image_name(container.text("image")));
}

bool is_memory_name(std::string_view name) {
  return std::find(kMemoryNames.begin(), kMemoryNames.end(), name) != kMemoryNames.end();
}

bool runs_memory_driver(const JsonObject& container) {
  std::vector<std::string> words = container.texts("command");
  for (std::string& word : container.texts("args")) words.push_back(std::move(word));
  return (!words.empty() && is_memory_name(last_part(words.front()))) ||
         is_memory_name(image_name(container.text("image")));
}

Revision read_revision(const JsonObject& metadata) {
  return {metadata.text("uid"), metadata.text("resourceVersion")};
}

// As it was written, a number or a percentage.
std::string text_or_number(const JsonObject& from, std::string_view key) {
  const json::value* found = from.find(key);
  if (found == nullptr) return {};
  return found->is_int64() ? fmt::format("{}", found->get_int64()) : from.text(key);
}

}  // namespace

std::string ClaimObject::object() const {
  return fmt::format("{} {}/{}", is_template ? "ResourceClaimTemplate" : "ResourceClaim", claim.ns,
                     claim.name);
}

Result<ClaimObject> read_claim(const json::object& item) { return read_any_claim(item, false); }

Result<ClaimObject> read_template(const json::object& item) {
  JsonErrors errors;
  const JsonObject root(errors, &item, "");
  const JsonObject metadata = root.object("metadata");
  const JsonObject spec = root.object("spec").object("spec");
  json::object claim;
  claim["metadata"] = {
      {"namespace", metadata.text("namespace")}, {"name", metadata.text("name")}, {"uid", "template"}};
  if (spec.present()) claim["spec"] = *spec.raw();
  if (errors.first()) return *errors.first();
  return read_any_claim(claim, true);
}

Result<ClassObject> read_class(const json::object& item) {
  JsonErrors errors;
  const JsonObject root(errors, &item, "");
  const JsonObject spec = root.object("spec");
  ClassObject out;
  out.name = root.object("metadata").text("name");
  out.revision = read_revision(root.object("metadata"));
  out.is_helms = root.object("metadata").object("labels").text("app.kubernetes.io/managed-by") == "Helm";
  read_expressions(spec, out.expressions);
  for (const JsonObject& entry : spec.objects("config"))
    out.opaque_drivers.push_back(entry.object("opaque").text("driver"));
  if (errors.first()) return *errors.first();
  return out;
}

Result<SliceObject> read_slice(const json::object& item) {
  JsonErrors errors;
  const JsonObject root(errors, &item, "");
  const JsonObject spec = root.object("spec");
  SliceObject out;
  out.name = root.object("metadata").text("name");
  out.revision = read_revision(root.object("metadata"));
  out.driver = spec.text("driver");
  out.node = spec.text("nodeName");
  for (const JsonObject& device : spec.objects("devices")) {
    out.devices.push_back(device.text("name"));
    const DeviceForm form = form_of(out.devices.back());
    out.has_individual = out.has_individual || form == DeviceForm::kIndividual;
    out.has_machine = out.has_machine || form == DeviceForm::kMachine;
    const JsonObject capacity = device.object("capacity");
    const bool is_shared = device.flag("allowMultipleAllocations");
    out.has_shared = out.has_shared || is_shared;
    if (capacity.present() && !capacity.raw()->empty() && !is_shared) out.lost_sharing = true;
    const JsonObject attributes = device.object("attributes");
    if (!attributes.present()) continue;
    for (const auto& [name, value] : *attributes.raw()) {
      const json::object* fields = value.if_object();
      for (const char* list : {"strings", "ints", "bools", "versions"}) {
        out.has_list_values = out.has_list_values || (fields != nullptr && fields->contains(list));
      }
    }
  }
  if (errors.first()) return *errors.first();
  return out;
}

DeviceForm form_of(std::string_view device) {
  constexpr std::string_view kStem = "cpudev";
  if (!device.starts_with(kStem)) return DeviceForm::kOther;
  device.remove_prefix(kStem.size());
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (device == "machine") return DeviceForm::kMachine;
  if (is_number(device)) return DeviceForm::kIndividual;
  if (device.starts_with("numa") && is_number(device.substr(4))) return DeviceForm::kNumaNode;
  if (device.starts_with("socket") && is_number(device.substr(6))) return DeviceForm::kSocket;
  return DeviceForm::kOther;
}

Result<std::optional<DriverSet>> read_driver_set(const json::object& item) {
  JsonErrors errors;
  const JsonObject root(errors, &item, "");
  const JsonObject metadata = root.object("metadata");
  const JsonObject spec = root.object("spec");
  const JsonObject pod = spec.object("template").object("spec");
  const std::map<std::string, std::string> labels = read_texts(metadata.object("labels"));
  const bool is_labelled = is_our_name(value_in(labels, "app.kubernetes.io/name")) ||
                           is_our_name(value_in(labels, "k8s-app")) || is_our_name(value_in(labels, "app"));
  DriverSet out;
  bool is_ours = false;
  const std::vector<JsonObject> containers = pod.objects("containers");
  for (const JsonObject& container : containers) {
    if (is_ours || !runs_driver(container)) continue;
    is_ours = true;
    read_container(container, read_volumes(pod), out);
  }
  // A wrapped image with a program of another name: the labels tell.
  if (!is_ours && is_labelled && !containers.empty()) {
    is_ours = true;
    read_container(containers.front(), read_volumes(pod), out);
  }
  if (!is_ours) {
    out.is_memory_driver = std::any_of(containers.begin(), containers.end(), runs_memory_driver);
    if (!out.is_memory_driver) return std::optional<DriverSet>();
  }
  out.ns = metadata.text("namespace");
  out.name = metadata.text("name");
  out.selector = read_texts(spec.object("selector").object("matchLabels"));
  out.node_selector = read_texts(pod.object("nodeSelector"));
  if (value_in(labels, "app.kubernetes.io/managed-by") == "Helm")
    out.release = value_in(labels, "app.kubernetes.io/instance");
  out.max_surge = text_or_number(spec.object("updateStrategy").object("rollingUpdate"), "maxSurge");
  const JsonObject status = root.object("status");
  const std::int64_t seen = status.integer("observedGeneration");
  const std::int64_t wanted = status.integer("desiredNumberScheduled");
  out.runs_nowhere = seen > 0 && wanted == 0;
  out.is_rolling = seen < metadata.integer("generation") || status.integer("updatedNumberScheduled") < wanted;
  if (errors.first()) return *errors.first();
  return std::optional<DriverSet>(std::move(out));
}

std::optional<ConfigMapKey> config_map_of(const DriverSet& set, std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view folder = path.substr(0, std::max<std::size_t>(slash, 1));
  const std::string file(path.substr(slash + 1));
  for (const DriverSet::Mount& mount : set.mounts) {
    if (mount.path != folder || mount.config_map.empty()) continue;
    if (mount.files.empty()) return ConfigMapKey{mount.config_map, file};
    if (const auto it = mount.files.find(file); it != mount.files.end())
      return ConfigMapKey{mount.config_map, it->second};
  }
  return std::nullopt;
}

Result<PodObject> read_pod(const json::object& item) {
  JsonErrors errors;
  const JsonObject root(errors, &item, "");
  const JsonObject metadata = root.object("metadata");
  const JsonObject spec = root.object("spec");
  PodObject out;
  out.ns = metadata.text("namespace");
  out.name = metadata.text("name");
  for (const JsonObject& entry : spec.objects("resourceClaims")) {
    if (std::string claim = entry.text("resourceClaimName"); !claim.empty())
      out.claims.push_back(std::move(claim));
  }
  // Those made from templates have names that only the status knows.
  for (const JsonObject& entry : root.object("status").objects("resourceClaimStatuses")) {
    if (std::string claim = entry.text("resourceClaimName"); !claim.empty())
      out.claims.push_back(std::move(claim));
  }
  for (const char* list : {"initContainers", "containers"}) {
    for (const JsonObject& container : spec.objects(list)) {
      const JsonObject limits = container.object("resources").object("limits");
      if (!limits.present()) continue;
      for (const auto& [name, amount] : *limits.raw()) {
        if (std::string_view(name).starts_with("hugepages-")) out.hugepages.emplace(name);
      }
    }
  }
  if (errors.first()) return *errors.first();
  return out;
}

Result<NodeObject> read_node(const json::object& item) {
  JsonErrors errors;
  const JsonObject root(errors, &item, "");
  const JsonObject info = root.object("status").object("nodeInfo");
  NodeObject out;
  out.name = root.object("metadata").text("name");
  out.kubelet_minor = minor_of(info.text("kubeletVersion"));
  const std::string system = info.text("operatingSystem");
  out.is_linux = system.empty() || system == "linux";
  if (errors.first()) return *errors.first();
  return out;
}

Result<Kubelet> read_configz(const json::object& answer) {
  JsonErrors errors;
  const JsonObject config = JsonObject(errors, &answer, "").object("kubeletconfig");
  if (!config.present()) return make_error(Errc::kCorrupt, "the answer has no kubeletconfig");
  Kubelet out;
  out.cpu_manager = config.text("cpuManagerPolicy");
  out.memory_manager = config.text("memoryManagerPolicy");
  const JsonObject gates = config.object("featureGates");
  if (gates.present()) {
    for (const auto& [name, value] : *gates.raw()) out.gates[std::string(name)] = gates.flag(name);
  }
  if (errors.first()) return *errors.first();
  return out;
}

std::optional<int> minor_of(std::string_view version) {
  if (version.starts_with('v')) version.remove_prefix(1);
  if (!version.starts_with("1.")) return std::nullopt;
  version.remove_prefix(2);
  return parse_number<int>(version.substr(0, version.find_first_not_of("0123456789")));
}

}  // namespace dracpu::upgrade

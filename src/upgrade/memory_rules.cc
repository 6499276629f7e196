// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Memory: where the driver is to serve it, or does and is to stop.

#include <algorithm>
#include <array>
#include <utility>

#include "memory/accounts.h"
#include "memory/types.h"
#include "upgrade/rules.h"

namespace dracpu::upgrade {
namespace {

const std::string kMemory(memory::kDriverName);
constexpr std::array<const char*, 3> kChartClasses = {"dra.memory", "dra.hugepages-2m", "dra.hugepages-1g"};

// "hugepages-2mi-numa000" → hugepages of 2 MiB; nothing for a name that this driver does not give.
std::optional<memory::Kind> kind_of_device(std::string_view device) {
  const std::size_t at = device.rfind("-numa");
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view number = device.substr(at + 5);
  if (number.size() < 3 || number.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  const std::string_view resource = device.substr(0, at);
  if (resource == memory::resource_name(memory::Kind())) return memory::Kind();
  if (!resource.ends_with('i')) return std::nullopt;
  return memory::kind_of_class(fmt::format("dra.{}", resource.substr(0, resource.size() - 1)));
}

// What the first releases of the standalone driver published and this one does not.
bool speaks_of_old_names(std::string_view expression) {
  if (!mentions(expression, kMemory)) return false;
  constexpr std::array<const char*, 8> kOld = {"dra.memory\"].numaNode",
                                               "dra.memory'].numaNode",
                                               "\"4k\"",
                                               "'4k'",
                                               "\"2m\"",
                                               "'2m'",
                                               "\"1g\"",
                                               "'1g'"};
  return std::any_of(kOld.begin(), kOld.end(),
                     [&](const char* old) { return expression.find(old) != std::string_view::npos; });
}

class MemoryCheck {
 public:
  MemoryCheck(const Given& given, const Facts& facts, const Target& target, Findings& out)
      : given_(given),
        facts_(facts),
        target_(target),
        out_(out),
        is_combined_(std::any_of(target.settings.begin(), target.settings.end(),
                                 [](const Settings& s) { return s.is_combined(); })),
        classes_(classes_of(facts.classes, kMemory)) {
    for (const ClaimObject& c : facts.claims) {
      if (!c.is_template) claims_.emplace(std::pair{c.claim.ns, c.claim.name}, &c);
    }
  }

  void check_settings() {
    for (const Settings& s : target_.settings) {
      if (s.misplaced.empty()) continue;
      std::string list;
      for (const std::string& key : s.misplaced) list += (list.empty() ? "\"" : ", \"") + key + "\"";
      add(Severity::kError, "memory-setting-misplaced", s.object,
          fmt::format("{}: the form v1alpha1 has no memory, and the driver refuses the file", list),
          "dracpu config migrate FILE (without those lines), then in the new form: memory: {enabled: true}");
    }
  }

  void check_served() {
    check_drivers();
    if (given_.values && !is_combined_) check_chart_classes();
    for (const ClassObject& c : facts_.classes) {
      if (std::any_of(c.expressions.begin(), c.expressions.end(), speaks_of_old_names))
        add_old_name(c.object(), "its selectors");
    }
    for (const ClaimObject& claim : facts_.claims) check_claim(claim);
    for (const PodObject& pod : facts_.pods) check_pod(pod);
  }

  // Pods that hold memory cannot end cleanly without the driver.
  void check_switched_off() {
    const bool is_on = std::any_of(facts_.configs.begin(), facts_.configs.end(),
                                   [](const StatedConfig& c) { return read_settings(c).memory; });
    if (!is_on || !target_.is_given) return;
    for (const ClaimObject& claim : facts_.claims) {
      if (devices_of(claim).empty()) continue;
      add(Severity::kError, "memory-switched-off", claim.object(),
          "it holds memory, which the new configuration does not serve: its pod cannot end cleanly before "
          "the "
          "driver dra.memory is back",
          "kubectl drain the node before memory is switched off, or keep memory: {enabled: true}");
    }
  }

 private:
  void add(Severity severity, std::string_view id, std::string object, std::string message, std::string fix) {
    out_.push_back({severity, std::string(id), std::move(object), std::move(message), std::move(fix),
                    std::string(section::kMemory)});
  }
  void add_old_name(std::string object, std::string_view where) {
    add(Severity::kError, "memory-old-name", std::move(object),
        fmt::format(
            "{} speak of names that only early releases of the standalone memory driver published, so "
            "no device matches",
            where),
        "device.attributes[\"resource.kubernetes.io\"].numaNode, .pageSize (\"4Ki\", \"2Mi\", \"1Gi\") and "
        ".hugeTLB; capacity: {requests: {size: 128Mi}}; delete and create the object again");
  }

  void check_drivers() {
    constexpr std::string_view kWhy =
        "both register the name dra.memory, so this driver waits on that node, and serves no CPUs either, "
        "until "
        "the other is gone";
    for (const DriverSet& set : facts_.memory_drivers) {
      if (set.runs_nowhere) continue;
      add(Severity::kError, "memory-driver-active", set.object(),
          fmt::format("the standalone memory driver runs there: {}", kWhy),
          fmt::format("kubectl drain the nodes, then: kubectl -n {} delete daemonset {}", set.ns, set.name));
    }
    for (const SliceObject& slice : facts_.slices) {
      const bool is_foreign = std::any_of(slice.devices.begin(), slice.devices.end(),
                                          [](const std::string& d) { return !kind_of_device(d); });
      if (slice.driver != kMemory || !is_foreign) continue;
      add(Severity::kError, "memory-driver-active", "Node " + slice.node,
          fmt::format("another driver publishes dra.memory there ({}): {}", slice.object(), kWhy),
          "stop it; slices that it left are replaced when this driver publishes");
    }
  }

  // Helm takes no object over that another tool has made.
  void check_chart_classes() {
    for (const ClassObject& c : facts_.classes) {
      if (c.is_helms || std::find(kChartClasses.begin(), kChartClasses.end(), c.name) == kChartClasses.end())
        continue;
      add(Severity::kError, "memory-class-exists", c.object(),
          "it was not made by a chart, so Helm refuses to install its own of that name",
          fmt::format("kubectl delete deviceclass {} just before the installation; claims that are allocated "
                      "keep their devices",
                      c.name));
    }
  }

  bool is_memory(const kube::DeviceRequest& r) const {
    return classes_.contains(r.device_class) || memory::kind_of_class(r.device_class).has_value();
  }
  std::vector<const kube::DeviceRequest*> requests_of(const ClaimObject& object) const {
    std::vector<const kube::DeviceRequest*> out;
    for (const kube::ClaimRequest& r : object.claim.requests) {
      if (r.exactly && is_memory(*r.exactly)) out.push_back(&*r.exactly);
      for (const kube::DeviceRequest& sub : r.first_available) {
        if (is_memory(sub)) out.push_back(&sub);
      }
    }
    return out;
  }
  // Of devices of the CPUs.
  std::vector<const kube::DeviceRequest*> combined_requests_of(const ClaimObject& object) const {
    std::vector<const kube::DeviceRequest*> out;
    const auto keep = [&](const kube::DeviceRequest& r) {
      if (is_combined_ && memory::asks_for_memory(r.capacity)) out.push_back(&r);
    };
    for (const kube::ClaimRequest& r : object.claim.requests) {
      if (r.exactly) keep(*r.exactly);
      for (const kube::DeviceRequest& sub : r.first_available) keep(sub);
    }
    return out;
  }
  static std::vector<std::string> devices_of(const ClaimObject& object) {
    std::vector<std::string> out;
    if (!object.claim.allocation) return out;
    for (const kube::AllocationResult& r : object.claim.allocation->results) {
      if (r.driver == kMemory) out.push_back(r.device);
    }
    return out;
  }

  void check_claim(const ClaimObject& object) {
    const std::vector<const kube::DeviceRequest*> requests = requests_of(object);
    const std::vector<std::string> devices = devices_of(object);
    if (requests.empty() && devices.empty() && combined_requests_of(object).empty()) return;
    if (is_combined_ && (!requests.empty() || !devices.empty())) {
      add(Severity::kError, "memory-class-not-served", object.object(),
          devices.empty()
              ? fmt::format("it asks for class \"{}\": in combined mode nothing is published for it",
                            requests.front()->device_class)
              : fmt::format("it was allocated device \"{}\": what is prepared stays, a new prepare is "
                            "refused in combined mode",
                            devices.front()),
          fmt::format(
              "ask class \"{0}\" for capacity: {{requests: {{{0}/cpu: N, {1}: AMOUNT}}}}, or keep memory: "
              "{{mode: separate}}",
              target_.driver_name, memory::combined_key(memory::Kind())));
    }
    if (!is_combined_) check_names(object, requests);
    for (const std::string& device : devices) {
      if (kind_of_device(device)) continue;
      add(Severity::kError, "memory-other-device", object.object(),
          fmt::format(
              "it was allocated device \"{}\" by the standalone memory driver: a running container is "
              "taken over, a new prepare is refused",
              device),
          fmt::format("kubectl drain the node before the move, or: kubectl -n {} delete resourceclaim {}",
                      object.claim.ns, object.claim.name));
      break;
    }
    const std::vector<kube::Consumer>& users = object.claim.reserved_for;
    const bool is_of_others =
        std::any_of(users.begin(), users.end(), [](const kube::Consumer& c) { return c.resource != "pods"; });
    if (users.size() > 1 || is_of_others) {
      add(Severity::kError, "memory-claim-shared", object.object(),
          fmt::format("it is reserved for {}: a claim on memory serves exactly one pod",
                      is_of_others ? "something that is no pod" : fmt::format("{} pods", users.size())),
          "a ResourceClaimTemplate, so that each pod has a claim of its own");
    }
  }

  void check_names(const ClaimObject& object, const std::vector<const kube::DeviceRequest*>& requests) {
    const bool has_old_key = std::any_of(requests.begin(), requests.end(), [](const auto* r) {
      return std::any_of(r->capacity.begin(), r->capacity.end(),
                         [](const auto& asked) { return asked.first == "pages" || asked.first == "memory"; });
    });
    const bool has_old_match = std::any_of(
        object.claim.constraints.begin(), object.claim.constraints.end(),
        [](const kube::ClaimConstraint& c) { return c.match_attribute == "dra.memory/numaNode"; });
    const bool has_old_selector =
        std::any_of(object.expressions.begin(), object.expressions.end(), speaks_of_old_names);
    if (has_old_key) add_old_name(object.object(), "its capacity requests");
    if (has_old_match) add_old_name(object.object(), "its constraints");
    if (has_old_selector) add_old_name(object.object(), "its selectors");
  }

  std::set<memory::Kind> hugepages_of(const ClaimObject& object) const {
    std::set<memory::Kind> out;
    const auto keep = [&out](const std::optional<memory::Kind>& kind) {
      if (kind && kind->is_hugepages()) out.insert(*kind);
    };
    for (const std::string& device : devices_of(object)) keep(kind_of_device(device));
    for (const kube::DeviceRequest* r : requests_of(object)) keep(memory::kind_of_class(r->device_class));
    for (const kube::DeviceRequest* r : combined_requests_of(object)) {
      for (const auto& [key, amount] : r->capacity) {
        if (memory::is_combined_key(key)) keep(memory::kind_of_variable(key.substr(key.find('/') + 1)));
      }
    }
    return out;
  }

  // The kubelet's limit of the pod and the claim: both, where nothing maps one to the other; else one.
  void check_pod(const PodObject& pod) {
    const bool maps = std::any_of(target_.settings.begin(), target_.settings.end(),
                                  [](const Settings& s) { return s.node_allocatable_mapping; });
    const bool are_raised = std::any_of(target_.settings.begin(), target_.settings.end(),
                                        [](const Settings& s) { return s.hugetlb == "pod"; });
    for (const std::string& name : pod.claims) {
      const auto found = claims_.find({pod.ns, name});
      if (found == claims_.end()) continue;
      const ClaimObject& object = *found->second;
      for (const memory::Kind kind : hugepages_of(object)) {
        const std::string resource = memory::resource_name(kind);
        const bool is_stated = pod.hugepages.contains(resource);
        if (is_stated && maps) {
          add(Severity::kWarning, "hugepages-counted-twice", pod.object(),
              fmt::format("it asks for {} as a resource and through claim \"{}\"; with "
                          "publish.nodeAllocatableMapping the claim counts by itself",
                          resource, object.claim.name),
              fmt::format("take {} out of the containers' resources, or set publish: "
                          "{{nodeAllocatableMapping: false}}",
                          resource));
        }
        if (!is_stated && !maps && !are_raised) {
          add(Severity::kError, "hugepages-without-limit", pod.object(),
              fmt::format(
                  "claim \"{}\" has {}, and no container has a limit of it: the kubelet gives the pod "
                  "none, and mmap fails with ENOMEM",
                  object.claim.name, resource),
              fmt::format(
                  "resources: {{limits: {{{}: the claim's amount}}}} in the container, beside the claim, or "
                  "memory: {{hugetlbEnforcement: pod}}",
                  resource));
        }
      }
    }
  }

  const Given& given_;
  const Facts& facts_;
  const Target& target_;
  Findings& out_;
  const bool is_combined_;
  std::set<std::string> classes_;
  std::map<std::pair<std::string, std::string>, const ClaimObject*> claims_;  // by namespace and name
};

}  // namespace

void check_memory(const Given& given, const Facts& facts, const Target& target, Findings& out,
                  std::vector<NotChecked>& not_checked) {
  MemoryCheck check(given, facts, target, out);
  check.check_settings();
  if (!target.has_memory()) return check.check_switched_off();
  check.check_served();
  not_checked.push_back({"cgroup v2 alone, its option memory_hugetlb_accounting and its controller hugetlb",
                         "the API does not tell; the driver looks at its start and says what is missing"});
}

}  // namespace dracpu::upgrade

// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Claims and templates that are refused by this driver, or by release 0.3.0 before it.

#include <algorithm>
#include <map>
#include <utility>

#include "agent/opaque_config.h"
#include "upgrade/rules.h"

namespace dracpu::upgrade {
namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_';
}

bool covers(const kube::ConfigEntry& entry, std::string_view request) {
  return entry.requests.empty() ||
         std::any_of(entry.requests.begin(), entry.requests.end(), [&](const std::string& name) {
           return name == request || name == kube::base_request(request);
         });
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += fmt::format("{}\"{}\"", out.empty() ? "" : ", ", name);
  return out;
}

// One claim or template, seen by one driver.
class ClaimCheck {
 public:
  ClaimCheck(const ClaimObject& object, const std::set<std::string>& classes, const Target& target,
             bool is_machine, Findings& out)
      : claim_(object.claim),
        name_(object.object()),
        classes_(classes),
        target_(target),
        is_machine_(is_machine),
        out_(out) {}

  void run() {
    check_admin_access();
    if (is_machine_) check_counts();
    if (target_.has_grouped()) check_opaque();
    if (target_.is_given) check_grouping();
  }

 private:
  bool is_ours(const kube::AllocationResult& result) const { return result.driver == target_.driver_name; }
  bool is_ours(const kube::DeviceRequest& request) const { return classes_.contains(request.device_class); }

  // Requests (with the part after "/") that are or would be served by this driver.
  std::vector<std::string> our_requests() const {
    std::vector<std::string> out;
    const auto add = [&out](std::string name) {
      if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(std::move(name));
    };
    if (claim_.allocation) {
      for (const kube::AllocationResult& r : claim_.allocation->results) {
        if (is_ours(r)) add(r.request);
      }
      return out;
    }
    for (const kube::ClaimRequest& r : claim_.requests) {
      if (r.exactly && is_ours(*r.exactly)) add(r.name);
      for (const kube::DeviceRequest& sub : r.first_available) {
        if (is_ours(sub)) add(r.name + "/" + sub.name);
      }
    }
    return out;
  }

  void add(std::string_view id, std::string message, std::string fix, std::string_view section) {
    out_.push_back(
        {Severity::kError, std::string(id), name_, std::move(message), std::move(fix), std::string(section)});
  }

  void check_admin_access() {
    std::vector<std::string> found;
    if (claim_.allocation) {
      for (const kube::AllocationResult& r : claim_.allocation->results) {
        if (r.admin_access && is_ours(r)) found.push_back(r.request);
      }
    } else {
      for (const kube::ClaimRequest& r : claim_.requests) {
        if (r.exactly && r.exactly->admin_access && is_ours(*r.exactly)) found.push_back(r.name);
      }
    }
    if (found.empty()) return;
    add("admin-access",
        fmt::format("request {} asks for admin access, which is refused for CPUs", joined(found)),
        "take \"adminAccess: true\" out of the request, then delete and create the object again",
        section::kAdminAccess);
  }

  void check_counts() {
    const std::vector<std::string> ours = our_requests();
    const auto is_served = [&ours](const std::string& request) {
      return std::find(ours.begin(), ours.end(), request) != ours.end();
    };
    for (const kube::ClaimRequest& r : claim_.requests) {
      if (r.exactly && r.exactly->count > 1 && is_served(r.name)) add_count(*r.exactly, r.name, "exactly");
      for (const kube::DeviceRequest& sub : r.first_available) {
        const std::string full = r.name + "/" + sub.name;
        if (sub.count > 1 && is_served(full)) add_count(sub, full, "firstAvailable");
      }
    }
  }

  void add_count(const kube::DeviceRequest& request, const std::string& name, std::string_view form) {
    const std::string key = target_.driver_name + "/cpu";
    auto amount = request.capacity.find(key);
    if (amount == request.capacity.end()) amount = request.capacity.find("cpu");
    std::string total = "N";
    if (amount != request.capacity.end()) {
      const std::optional<std::int64_t> each = amount->second.to_int64();
      constexpr std::int64_t kMost = 1'000'000;  // CPUs and devices beyond it are no sums to show
      if (each && *each > 0 && *each < kMost && request.count < kMost)
        total = fmt::format("{}", *each * request.count);
    }
    add("machine-count",
        fmt::format(
            "request \"{}\" has count {} ({}); with machine grouping more than 1 is refused at prepare", name,
            request.count, form),
        fmt::format("{{count: 1, capacity: {{requests: {{{}: \"{}\"}}}}}}{}", key, total,
                    total == "N" ? ", N the number of CPUs" : ""),
        section::kMachine);
  }

  std::vector<const kube::ConfigEntry*> our_entries() const {
    std::vector<const kube::ConfigEntry*> out;
    for (const kube::ConfigEntry& e : claim_.allocation ? claim_.allocation->config : claim_.config) {
      if (e.opaque && e.driver == target_.driver_name) out.push_back(&e);
    }
    return out;
  }

  // Preferred CPUs belong to an external allocator; anywhere else they were ignored and are refused now.
  void check_opaque() {
    const std::vector<std::string> requests = our_requests();
    const std::vector<const kube::ConfigEntry*> entries = our_entries();
    for (const kube::ConfigEntry* entry : entries) check_entry(*entry, requests);
    if (!target_.has_external()) return;
    for (const std::string& request : requests) {
      const auto count =
          std::count_if(entries.begin(), entries.end(),
                        [&request](const kube::ConfigEntry* e) { return covers(*e, request); });
      // Before the allocation nobody has chosen CPUs yet.
      if (count == 1 || (count == 0 && (!claim_.allocation || !has_only_external()))) continue;
      add("opaque-config-count",
          fmt::format("request \"{}\" has {} opaque configurations for {}; the allocator \"external\" needs "
                      "exactly 1",
                      request, count, target_.driver_name),
          fmt::format("one entry for {} per request, with \"requests: [{}]\"", target_.driver_name, request),
          section::kOpaque);
    }
  }

  bool has_only_external() const {
    return std::all_of(target_.settings.begin(), target_.settings.end(),
                       [](const Settings& s) { return s.is_grouped() && s.is_external(); });
  }

  void check_entry(const kube::ConfigEntry& entry, const std::vector<std::string>& requests) {
    std::vector<std::string> covered;
    for (const std::string& request : requests) {
      if (covers(entry, request)) covered.push_back(request);
    }
    if (covered.empty()) return;
    if (!target_.has_external()) {
      return add(
          "opaque-config-refused",
          fmt::format("request {} carries an opaque configuration for {}; the allocator \"cpumanager\" "
                      "ignored it once and refuses it now",
                      joined(covered), target_.driver_name),
          fmt::format("take the entry for {} out of spec.devices.config, or set allocator: external",
                      target_.driver_name),
          section::kOpaque);
    }
    if (entry.source == kube::ConfigEntry::Source::kClass) {
      return add("opaque-config-from-class",
                 fmt::format("the opaque configuration for request {} comes from the DeviceClass; it must "
                             "come from the claim",
                             joined(covered)),
                 "take the entry out of the DeviceClass, then delete and create the claim again",
                 section::kOpaque);
    }
    if (const Result<CpuSet> cpus = agent::parse_chosen_cpus(entry.parameters); !cpus.ok()) {
      return add("opaque-config-invalid",
                 fmt::format("the opaque configuration for request {} is refused: {}", joined(covered),
                             cpus.error().text),
                 "parameters: {apiVersion: v1alpha1, cpuConfig: {cpuset: \"0-3\"}}", section::kOpaque);
    }
    // Alternatives of one request are never served together.
    std::set<std::string_view> bases;
    for (const std::string& request : covered) bases.insert(kube::base_request(request));
    if (bases.size() > 1) {
      add("opaque-config-shared",
          fmt::format("one opaque configuration covers the requests {}: each would need the same CPUs, and "
                      "the second is refused",
                      joined(covered)),
          fmt::format("one entry for {} per request, each with its own cpuset", target_.driver_name),
          section::kOpaque);
    }
  }

  // Devices of another grouping are not published any more, so the allocation cannot be prepared again.
  void check_grouping() {
    if (!claim_.allocation) return;
    const Settings& s = target_.settings.front();
    DeviceForm wanted = DeviceForm::kNumaNode;
    if (s.group_by == "socket") wanted = DeviceForm::kSocket;
    if (s.group_by == "machine") wanted = DeviceForm::kMachine;
    if (!s.is_grouped()) wanted = DeviceForm::kIndividual;
    std::vector<std::string> found;
    for (const kube::AllocationResult& r : claim_.allocation->results) {
      const DeviceForm form = form_of(r.device);
      if (is_ours(r) && form != wanted && form != DeviceForm::kOther) found.push_back(r.device);
    }
    if (found.empty()) return;
    add("other-grouping",
        fmt::format(
            "it was allocated device {}, which is not published under {}{}{}: a running pod keeps its "
            "CPUs, a new prepare is refused",
            joined(found), s.devices, s.is_grouped() ? ", groupBy " : "", s.is_grouped() ? s.group_by : ""),
        fmt::format("kubectl drain the node before the move, or: kubectl -n {} delete resourceclaim {}",
                    claim_.ns, claim_.name),
        section::kGrouping);
  }

  const kube::Claim& claim_;
  std::string name_;
  const std::set<std::string>& classes_;
  const Target& target_;
  bool is_machine_;
  Findings& out_;
};

}  // namespace

bool mentions(std::string_view text, std::string_view name) {
  if (name.empty()) return false;
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool is_begin = at == 0 || !is_name_character(text[at - 1]);
    const bool is_end = end == text.size() || !is_name_character(text[end]);
    if (is_begin && is_end) return true;
  }
  return false;
}

std::set<std::string> classes_of(const std::vector<ClassObject>& classes, const std::string& driver) {
  std::set<std::string> out{driver};
  for (const ClassObject& c : classes) {
    if (std::any_of(c.expressions.begin(), c.expressions.end(),
                    [&driver](const std::string& e) { return mentions(e, driver); }))
      out.insert(c.name);
  }
  return out;
}

void check_claims(const Facts& facts, const Target& target, Findings& out) {
  const std::set<std::string> classes = classes_of(facts.classes, target.driver_name);
  // What is published tells where no configuration could be read.
  const bool is_machine =
      target.has_machine() ||
      (!target.is_given && std::any_of(facts.slices.begin(), facts.slices.end(),
                                       [](const SliceObject& s) { return s.has_machine; }));
  for (const ClaimObject& claim : facts.claims) ClaimCheck(claim, classes, target, is_machine, out).run();
  if (!target.has_grouped()) return;
  for (const ClassObject& c : facts.classes) {
    for (std::size_t i = 0; i < c.opaque_drivers.size(); ++i) {
      if (c.opaque_drivers[i] != target.driver_name) continue;
      out.push_back(
          {Severity::kError, "opaque-config-from-class", c.object(),
           fmt::format("it carries an opaque configuration for {}; CPUs can be chosen in the claim only, "
                       "so every new claim of this class is refused",
                       target.driver_name),
           fmt::format("kubectl patch deviceclass {} --type=json -p "
                       "'[{{\"op\":\"remove\",\"path\":\"/spec/config/{}\"}}]'",
                       c.name, i),
           std::string(section::kOpaque)});
    }
  }
}

}  // namespace dracpu::upgrade

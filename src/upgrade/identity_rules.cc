// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A driver that gets another name: what still calls it by an old one.

#include <algorithm>
#include <utility>

#include "upgrade/rules.h"

namespace dracpu::upgrade {
namespace {

// The places in a claim that name the driver; empty if none does.
std::string places_in(const ClaimObject& object, const std::string& old) {
  std::string out;
  const auto add = [&out](std::string_view place) {
    if (out.find(place) == std::string::npos) out += fmt::format("{}{}", out.empty() ? "" : ", ", place);
  };
  const auto look_at = [&](const kube::DeviceRequest& r) {
    if (r.device_class == old) add("deviceClassName");
    for (const auto& [key, amount] : r.capacity) {
      if (key.starts_with(old + "/")) add("capacity.requests");
    }
  };
  for (const kube::ClaimRequest& r : object.claim.requests) {
    if (r.exactly) look_at(*r.exactly);
    for (const kube::DeviceRequest& sub : r.first_available) look_at(sub);
  }
  for (const std::string& expression : object.expressions) {
    if (mentions(expression, old)) add("selectors");
  }
  for (const kube::ClaimConstraint& c : object.claim.constraints) {
    if (c.match_attribute.starts_with(old + "/")) add("constraints");
  }
  for (const kube::ConfigEntry& entry : object.claim.config) {
    if (entry.opaque && entry.driver == old) add("config");
  }
  if (object.claim.allocation) {
    for (const kube::AllocationResult& r : object.claim.allocation->results) {
      if (r.driver == old) add("allocation");
    }
  }
  return out;
}

class IdentityCheck {
 public:
  IdentityCheck(const std::string& old, const std::string& now, Findings& out)
      : old_(old), now_(now), out_(out) {}

  void look_at(const ClaimObject& claim) {
    const std::string places = places_in(claim, old_);
    if (places.empty()) return;
    add(Severity::kError, claim.object(), fmt::format("it names \"{}\" in {}", old_, places),
        fmt::format("write \"{}\" there (delete and create it again, its spec cannot be changed)", now_));
  }

  void look_at(const ClassObject& c) {
    const bool is_selected = std::any_of(c.expressions.begin(), c.expressions.end(),
                                         [this](const std::string& e) { return mentions(e, old_); });
    const bool has_config =
        std::find(c.opaque_drivers.begin(), c.opaque_drivers.end(), old_) != c.opaque_drivers.end();
    if (!is_selected && !has_config && c.name != old_) return;
    add(Severity::kError, c.object(),
        fmt::format("its {} \"{}\"",
                    is_selected  ? "selectors name"
                    : has_config ? "configuration names"
                                 : "name is",
                    old_),
        fmt::format(
            "use the class \"{}\" that the chart makes; when no claim uses the old one: kubectl delete "
            "deviceclass {}",
            now_, c.name));
  }

  void look_at(const SliceObject& slice) {
    if (slice.driver != old_) return;
    add(Severity::kWarning, slice.object(), fmt::format("it is published by \"{}\"", old_),
        fmt::format(
            "when the old driver is gone: kubectl delete resourceslices --field-selector spec.driver={}",
            old_));
  }

 private:
  void add(Severity severity, std::string object, std::string_view what, std::string fix) {
    out_.push_back({severity, "old-driver-name", std::move(object),
                    fmt::format("{}; the driver will be called \"{}\"", what, now_), std::move(fix),
                    std::string(section::kIdentity)});
  }

  const std::string& old_;
  const std::string& now_;
  Findings& out_;
};

}  // namespace

void check_old_name(const Facts& facts, const std::string& old, const std::string& now, Findings& out) {
  IdentityCheck check(old, now, out);
  for (const ClaimObject& claim : facts.claims) check.look_at(claim);
  for (const ClassObject& c : facts.classes) check.look_at(c);
  for (const SliceObject& slice : facts.slices) check.look_at(slice);
}

void check_identity(const Given& given, const Facts& facts, const Target& target, Findings& out) {
  if (!target.is_given) return;
  for (const std::string& name : driver_names(given, facts.configs)) {
    if (name != target.driver_name) check_old_name(facts, name, target.driver_name, out);
  }
}

}  // namespace dracpu::upgrade

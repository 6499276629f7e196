// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Gives devices to claims that have none, as a scheduler would at its simplest: the first that has room.
//
// Classes      A request reaches the CPUs by the class named like the driver, memory by the chart's classes
//              (memory::class_name()); every other class is another driver's, and its request is skipped.
//              Selectors are not evaluated.
// Combined     Memory is a capacity of the CPUs' devices and has no class.
// Amounts      Bytes are rounded as the device's range says: up to its minimum and then in steps.
// Constraints  matchAttribute over requests of ours: the values are tried in published order. An attribute
//              that is a list is not looked at; one that no device here has can never match.
//              distinctAttribute is not looked at.
// Errors       kNoCapacity   names request, amount and what is left where
//              kInvalidInput what the API server or the scheduler would not let through
// Threads      Pure. Refers to the machine's devices.

#ifndef DRACPU_AGENT_PLAN_FIT_H_
#define DRACPU_AGENT_PLAN_FIT_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/node.h"
#include "kube/claim.h"
#include "ledger/ledger.h"
#include "memory/accounts.h"

namespace dracpu::agent {

// "a, b, c, …": a message names only the first of many.
class ShortList {
 public:
  void add(std::string_view item);
  std::string or_else(std::string_view nothing) const { return items_ == 0 ? std::string(nothing) : text_; }

 private:
  std::string text_;
  std::size_t items_ = 0;
};

class FirstFit {
 public:
  FirstFit(const Node& node, const Machine& machine, const CpuSet& usable);

  void take(const std::vector<ledger::Request>& requests);
  void take(const memory::Claim& claim);
  // What somebody holds outside of what may be used takes no room.
  void take_held(const ledger::Claim& claim);

  Result<kube::Allocation> allocate(const kube::Claim& claim) const;

 private:
  struct Candidate {
    std::string driver;
    std::string device_class;
    const device::Device* device;
  };
  // A constraint, and the values that its attribute has here.
  struct Match {
    const kube::ClaimConstraint* constraint;
    std::vector<device::AttributeValue> values;
    std::size_t at = 0;  // the value that is tried
  };
  // By device and capacity.
  using Taken = std::map<std::pair<std::string, std::string>, std::int64_t>;
  struct Amount {
    std::string key;  // empty: the whole device, which is one CPU
    std::int64_t count = 0;
    kube::Quantity consumed;
  };

  // Of a grant that does not say; empty: not offered.
  std::string device_of(const memory::Grant& grant) const;
  bool is_ours(std::string_view device_class) const;
  std::vector<const Candidate*> candidates_of(std::string_view device_class) const;
  bool is_known_attribute(const std::string& name) const;
  std::vector<Match> matches_of(const kube::Claim& claim) const;
  Result<kube::Allocation> fit(const kube::Claim& claim, const std::vector<Match>& matches) const;
  Status add(const kube::DeviceRequest& request, const std::string& name, const std::vector<Match>& matches,
             Taken& taken, kube::Allocation& out) const;
  Status check(const kube::DeviceRequest& request, const std::string& name,
               const std::vector<const Candidate*>& candidates) const;
  Result<kube::AllocationResult> place(const kube::DeviceRequest& request, const std::string& name,
                                       const std::vector<const Candidate*>& candidates, Taken& taken) const;
  std::vector<Amount> amounts_of(const device::Device& device, const kube::DeviceRequest& request) const;
  std::int64_t room_of(const device::Device& device, const std::string& key, const Taken& taken) const;
  std::string rooms_of(const std::vector<const Candidate*>& candidates, const Taken& taken) const;

  std::string driver_;
  std::string pool_;
  std::string cpu_key_;
  bool has_memory_;                    // as devices of its own
  bool is_combined_;                   // with the CPUs
  std::vector<memory::Offer> offers_;  // of combined mode
  const CpuSet& usable_;
  std::vector<Candidate> candidates_;  // in published order
  Taken taken_;
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_PLAN_FIT_H_

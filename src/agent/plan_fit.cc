// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/plan_fit.h"

#include <algorithm>
#include <optional>
#include <set>
#include <variant>

#include "base/escape.h"
#include "device/build.h"

namespace dracpu::agent {
namespace {

using device::Device;
using kube::DeviceRequest;

constexpr std::int64_t kMostDevices = 32;  // of one claim, resource.k8s.io/v1 AllocationResultsMaxSize
constexpr std::size_t kMostTries = 1024;   // of values that constraints could have together

// "request" of a constraint is the name of a request, or of one alternative of it.
bool covers(const kube::ClaimConstraint& constraint, std::string_view request) {
  return constraint.requests.empty() ||
         std::any_of(constraint.requests.begin(), constraint.requests.end(), [&](const std::string& name) {
           return name == request || name == kube::base_request(request);
         });
}

const device::AttributeValue* attribute_of(const Device& device, const std::string& name) {
  const auto found = device.attributes.find(name);
  const bool is_plain =
      found != device.attributes.end() && !std::holds_alternative<std::vector<std::string>>(found->second);
  return is_plain ? &found->second : nullptr;
}

std::string text_of(const device::AttributeValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return in_quotes(std::get<std::string>(value));
}

// Amounts that are not whole are refused later, with their own words.
std::int64_t whole(const kube::Quantity& amount) {
  const std::optional<std::int64_t> n = amount.to_int64();
  return n && *n >= 0 ? *n : 1;
}

// What a request for `asked` gets of a capacity that counts bytes.
std::int64_t rounded(const std::optional<kube::Quantity>& asked, const device::ByteRange& range) {
  if (!asked) return range.fallback;
  constexpr kube::Quantity::Nano kOne = 1'000'000'000;
  const auto bytes = static_cast<std::int64_t>((asked->nano() + kOne - 1) / kOne);
  if (bytes <= range.min) return range.min;
  if (!range.step) return bytes;
  const std::int64_t rest = (bytes - range.min) % *range.step;
  if (rest == 0) return bytes;
  const std::int64_t missing = *range.step - rest;
  return bytes > INT64_MAX - missing ? INT64_MAX : bytes + missing;
}

}  // namespace

void ShortList::add(std::string_view item) {
  constexpr std::size_t kMost = 16;
  if (++items_ <= kMost) {
    text_ += fmt::format("{}{}", items_ == 1 ? "" : ", ", item);
  } else if (items_ == kMost + 1) {
    text_ += ", …";
  }
}

FirstFit::FirstFit(const Node& node, const Machine& machine, const CpuSet& usable)
    : driver_(node.config.publish.driver_name),
      pool_(node.name),
      cpu_key_(device::cpu_capacity_name(driver_)),
      has_memory_(machine.memory && node.config.memory.mode == config::MemoryMode::kSeparate),
      is_combined_(comes_with_memory(node.config)),
      usable_(usable) {
  if (is_combined_ && machine.memory) {
    offers_ = machine.memory->published.offers;
    for (const device::Slice& slice : machine.memory->published.slices) {
      for (const Device& d : slice.devices) candidates_.push_back({driver_, driver_, &d});
    }
    return;
  }
  for (const Device& d : machine.devices) candidates_.push_back({driver_, driver_, &d});
  if (!has_memory_) return;
  std::map<std::string_view, memory::Kind> kinds;
  for (const memory::Offer& o : machine.memory->published.offers) kinds.emplace(o.device, o.kind);
  for (const device::Slice& slice : machine.memory->published.slices) {
    for (const Device& d : slice.devices) {
      candidates_.push_back({std::string(memory::kDriverName), memory::class_name(kinds.at(d.name)), &d});
    }
  }
}

void FirstFit::take(const std::vector<ledger::Request>& requests) {
  for (const ledger::Request& r : requests) taken_[{r.device, ""}] += static_cast<std::int64_t>(r.cpus);
}

void FirstFit::take(const memory::Claim& claim) {
  for (const memory::Grant& g : claim.grants) {
    // What was adopted from a file does not say its device.
    const std::string device = g.device.empty() ? device_of(g) : g.device;
    const std::string key = is_combined_ ? memory::combined_key(g.kind) : std::string(memory::kSizeKey);
    taken_[{device, key}] += static_cast<std::int64_t>(g.bytes.count);
  }
}

std::string FirstFit::device_of(const memory::Grant& grant) const {
  if (!is_combined_) return memory::device_name(grant.kind, grant.node);
  const auto found = std::find_if(offers_.begin(), offers_.end(), [&](const memory::Offer& o) {
    return o.kind == grant.kind && o.node == grant.node;
  });
  return found == offers_.end() ? "" : found->device;
}

void FirstFit::take_held(const ledger::Claim& claim) {
  for (const ledger::Grant& grant : claim.grants) {
    const auto found = std::find_if(candidates_.begin(), candidates_.end(),
                                    [&](const Candidate& c) { return c.device->name == grant.device; });
    if (found == candidates_.end()) continue;
    taken_[{grant.device, ""}] +=
        static_cast<std::int64_t>(std::min(grant.cpus, (found->device->cpus & usable_ & claim.cpus).size()));
  }
}

Result<kube::Allocation> FirstFit::allocate(const kube::Claim& claim) const {
  std::vector<Match> matches = matches_of(claim);
  if (matches.empty()) return fit(claim, matches);
  for (const Match& m : matches) {
    if (m.values.empty()) {
      return make_error(Errc::kNoCapacity, "matchAttribute {}: no device here has that attribute",
                        m.constraint->match_attribute);
    }
  }
  ShortList failures;
  Errc code = Errc::kNoCapacity;
  for (std::size_t tries = 0; tries < kMostTries; ++tries) {
    Result<kube::Allocation> made = fit(claim, matches);
    if (made.ok()) return made;
    code = made.error().code;
    if (code != Errc::kNoCapacity) return made;
    std::string which;
    for (const Match& m : matches)
      which += fmt::format("{}{} {}, ", which.empty() ? "with " : "", m.constraint->match_attribute,
                           text_of(m.values[m.at]));
    failures.add(which + made.error().text);
    const auto next = std::find_if(matches.begin(), matches.end(), [](Match& m) {
      m.at = (m.at + 1) % m.values.size();
      return m.at != 0;
    });
    if (next == matches.end()) return make_error(code, "{}", failures.or_else(""));
  }
  return make_error(code, "{} ways to meet the constraints were tried, none has room: {}", kMostTries,
                    failures.or_else(""));
}

bool FirstFit::is_ours(std::string_view device_class) const {
  return device_class == driver_ || (has_memory_ && memory::kind_of_class(device_class));
}

std::vector<const FirstFit::Candidate*> FirstFit::candidates_of(std::string_view device_class) const {
  std::vector<const Candidate*> out;
  for (const Candidate& c : candidates_) {
    if (c.device_class == device_class) out.push_back(&c);
  }
  return out;
}

// Lists count, too, though their values are not tried.
bool FirstFit::is_known_attribute(const std::string& name) const {
  return name.empty() || std::any_of(candidates_.begin(), candidates_.end(),
                                     [&](const Candidate& c) { return c.device->attributes.contains(name); });
}

// Those that can fail: an attribute that nobody has, and a value that is to be equal over more than one
// device of ours.
std::vector<FirstFit::Match> FirstFit::matches_of(const kube::Claim& claim) const {
  std::vector<Match> out;
  for (const kube::ClaimConstraint& constraint : claim.constraints) {
    std::int64_t devices = 0;
    const auto count = [&](const DeviceRequest& request, const std::string& name) {
      if (!is_ours(request.device_class) || !covers(constraint, name)) return std::int64_t{0};
      return request.mode == "All" ? kMostDevices : std::clamp(request.count, std::int64_t{1}, kMostDevices);
    };
    for (const kube::ClaimRequest& r : claim.requests) {
      std::int64_t most = r.exactly ? count(*r.exactly, r.name) : 0;
      for (const DeviceRequest& sub : r.first_available)
        most = std::max(most, count(sub, r.name + "/" + sub.name));
      devices += most;
    }
    Match match{&constraint, {}};
    for (const Candidate& c : candidates_) {
      const device::AttributeValue* value = attribute_of(*c.device, constraint.match_attribute);
      if (value != nullptr &&
          std::find(match.values.begin(), match.values.end(), *value) == match.values.end())
        match.values.push_back(*value);
    }
    if (devices > 1 && !match.values.empty()) out.push_back(std::move(match));
    if (devices > 0 && !is_known_attribute(constraint.match_attribute)) out.push_back({&constraint, {}});
  }
  return out;
}

Result<kube::Allocation> FirstFit::fit(const kube::Claim& claim, const std::vector<Match>& matches) const {
  Taken taken = taken_;
  kube::Allocation out;
  bool wants_memory = false;
  for (const kube::ClaimRequest& request : claim.requests) {
    if (request.exactly) {
      wants_memory = wants_memory || memory::kind_of_class(request.exactly->device_class);
      if (Status s = add(*request.exactly, request.name, matches, taken, out); !s.ok())
        return std::move(s).error();
      continue;
    }
    Status last = ok_status();
    bool is_placed = false;
    for (const DeviceRequest& sub : request.first_available) {
      wants_memory = wants_memory || memory::kind_of_class(sub.device_class);
      last = add(sub, request.name + "/" + sub.name, matches, taken, out);
      is_placed = last.ok();
      if (is_placed) break;
    }
    if (!is_placed && !last.ok()) return std::move(last).error();
  }
  if (out.results.empty()) {
    return make_error(
        Errc::kInvalidInput, "no request with device class \"{}\"{}; the claim has no allocation either{}",
        driver_,
        has_memory_ ? fmt::format(" or of memory (\"{}\", …)", memory::class_name(memory::Kind())) : "",
        wants_memory ? "; memory is off in this configuration" : "");
  }
  if (out.results.size() > kMostDevices) {
    return make_error(Errc::kInvalidInput, "it takes {} devices, more than the {} that a claim can have",
                      out.results.size(), kMostDevices);
  }
  out.config = claim.config;
  return out;
}

Status FirstFit::add(const DeviceRequest& request, const std::string& name, const std::vector<Match>& matches,
                     Taken& taken, kube::Allocation& out) const {
  if (is_combined_ && memory::kind_of_class(request.device_class)) {
    return make_error(Errc::kUnsupported,
                      "request \"{}\": in combined mode there is no class \"{}\"; ask \"{}\" for memory with "
                      "the CPUs",
                      name, request.device_class, driver_);
  }
  if (!is_ours(request.device_class)) return ok_status();
  const std::vector<const Candidate*> all = candidates_of(request.device_class);
  if (Status s = check(request, name, all); !s.ok()) return s;
  std::vector<const Candidate*> fitting = all;
  for (const Match& m : matches) {
    if (!covers(*m.constraint, name)) continue;
    std::erase_if(fitting, [&](const Candidate* c) {
      const device::AttributeValue* value = attribute_of(*c->device, m.constraint->match_attribute);
      return value == nullptr || *value != m.values[m.at];
    });
  }
  const bool is_all = request.mode == "All";
  if (fitting.empty() && !all.empty()) {
    return make_error(Errc::kNoCapacity, "request \"{}\": no device of class \"{}\" has that", name,
                      request.device_class);
  }
  if (is_all && fitting.size() != all.size()) {
    return make_error(Errc::kNoCapacity, "request \"{}\": all {} devices are wanted, {} match", name,
                      all.size(), fitting.size());
  }
  const std::size_t count = is_all ? all.size() : static_cast<std::size_t>(request.count);
  Taken tried = taken;
  std::vector<kube::AllocationResult> results;
  for (std::size_t i = 0; i < count; ++i) {
    Result<kube::AllocationResult> result =
        place(request, name, is_all ? std::vector{fitting[i]} : fitting, tried);
    if (!result.ok()) {
      if (count == 1) return std::move(result).error();
      return std::move(result).error().while_doing(fmt::format("device {} of {}", i + 1, count));
    }
    results.push_back(*std::move(result));
  }
  taken = std::move(tried);
  std::move(results.begin(), results.end(), std::back_inserter(out.results));
  return ok_status();
}

// What the API server or the scheduler would not let through.
Status FirstFit::check(const DeviceRequest& request, const std::string& name,
                       const std::vector<const Candidate*>& candidates) const {
  if (request.mode != "ExactCount" && request.mode != "All") {
    return make_error(Errc::kInvalidInput,
                      "request \"{}\": allocationMode {} is not known; use ExactCount or All", name,
                      in_quotes(request.mode));
  }
  if (request.mode == "All" && request.count != 0) {
    return make_error(Errc::kInvalidInput, "request \"{}\": allocationMode All takes no count, found {}",
                      name, request.count);
  }
  if (request.mode == "ExactCount" && (request.count < 1 || request.count > kMostDevices)) {
    return make_error(Errc::kInvalidInput,
                      "request \"{}\": count {} is not from 1 to {}, the devices of a claim", name,
                      request.count, kMostDevices);
  }
  if (request.admin_access)
    return make_error(Errc::kInvalidInput, "request \"{}\": adminAccess is not served; leave it out", name);
  const bool is_cpu = request.device_class == driver_;
  const bool shares = candidates.empty() || candidates.front()->device->allow_multiple_allocations;
  std::set<std::string> keys;
  for (const Candidate* c : candidates) {
    for (const auto& [key, total] : c->device->capacity) keys.insert(key);
  }
  for (const auto& [asked, amount] : request.capacity) {
    if (!shares || (!keys.contains(asked) && !candidates.empty())) {
      std::string known;
      for (const std::string& key : keys) known += (known.empty() ? "" : ", ") + in_quotes(key);
      return make_error(
          Errc::kNoCapacity, "request \"{}\": no device here has a capacity {}; {}", name, in_quotes(asked),
          shares ? "ask for " + known : std::string("each device is one CPU, so ask with count"));
    }
    if (amount.is_negative()) {
      return make_error(Errc::kInvalidInput, "request \"{}\": {} is {}, less than nothing", name, asked,
                        amount.to_string());
    }
    if (is_cpu && asked == cpu_key_ && !amount.to_int64()) {
      return make_error(Errc::kInvalidInput,
                        "request \"{}\": {} is {}; exclusive CPUs must be a whole number", name, asked,
                        amount.to_string());
    }
  }
  const auto cpus = request.capacity.find(cpu_key_);
  const bool asks_for_nothing = is_cpu && cpus != request.capacity.end() &&
                                cpus->second == kube::Quantity(0) &&
                                !(is_combined_ && memory::asks_for_memory(request.capacity));
  if (asks_for_nothing) {
    return make_error(Errc::kInvalidInput, "request \"{}\": {} is 0; it must be positive{}", name, cpu_key_,
                      is_combined_ ? ", or memory be asked for" : "");
  }
  return ok_status();
}

std::vector<FirstFit::Amount> FirstFit::amounts_of(const Device& device, const DeviceRequest& request) const {
  if (!device.allow_multiple_allocations) return {{"", 1, {}}};
  std::vector<Amount> out;
  for (const auto& [key, total] : device.capacity) {
    std::optional<kube::Quantity> asked;
    if (const auto it = request.capacity.find(key); it != request.capacity.end()) asked = it->second;
    if (const auto range = device.byte_ranges.find(key); range != device.byte_ranges.end()) {
      const std::int64_t bytes = rounded(asked, range->second);
      out.push_back({key, bytes, kube::Quantity::of_bytes(bytes)});
    } else {
      const auto cpus = static_cast<std::int64_t>(device.cpus.size());
      const std::int64_t count = asked ? whole(*asked) : cpus;
      out.push_back({key, count, asked.value_or(kube::Quantity(count))});
    }
  }
  return out;
}

std::int64_t FirstFit::room_of(const Device& device, const std::string& key, const Taken& taken) const {
  const bool is_bytes = device.byte_ranges.contains(key);
  const auto most =
      is_bytes ? device.capacity.at(key) : static_cast<std::int64_t>((device.cpus & usable_).size());
  const auto found = taken.find({device.name, is_bytes ? key : ""});
  return found == taken.end() ? most : most - std::min(found->second, most);
}

Result<kube::AllocationResult> FirstFit::place(const DeviceRequest& request, const std::string& name,
                                               const std::vector<const Candidate*>& candidates,
                                               Taken& taken) const {
  for (const Candidate* candidate : candidates) {
    const Device& d = *candidate->device;
    const std::vector<Amount> amounts = amounts_of(d, request);
    const bool has_keys = std::all_of(request.capacity.begin(), request.capacity.end(),
                                      [&](const auto& asked) { return d.capacity.contains(asked.first); });
    const bool has_room = has_keys && std::all_of(amounts.begin(), amounts.end(), [&](const Amount& a) {
                            const std::int64_t room = room_of(d, a.key, taken);
                            return a.count <= room && (room > 0 || a.count == 0);
                          });
    if (!has_room) continue;
    kube::AllocationResult out;
    out.request = name;
    out.driver = candidate->driver;
    out.pool = pool_;
    out.device = d.name;
    out.admin_access = request.admin_access;
    for (const Amount& a : amounts) {
      taken[{d.name, d.byte_ranges.contains(a.key) ? a.key : ""}] += a.count;
      if (!a.key.empty()) out.consumed_capacity.emplace(a.key, a.consumed);
    }
    return out;
  }
  std::string wanted;
  const bool is_cpu = request.device_class == driver_;
  for (const auto& [key, amount] : request.capacity) {
    wanted += (wanted.empty() ? "" : " and ") + amount.to_string();
    if (memory::is_combined_key(key)) {
      wanted += " of " + key;
    } else if (is_cpu) {
      wanted += amount.to_string() == "1" ? " CPU" : " CPUs";
    }
  }
  if (wanted.empty() && !is_cpu && !candidates.empty()) {
    const device::ByteRange& range =
        candidates.front()->device->byte_ranges.at(std::string(memory::kSizeKey));
    wanted = memory::text_of({static_cast<std::uint64_t>(range.fallback)});
  }
  return make_error(Errc::kNoCapacity, "request \"{}\": no device has room for {}; {} left: {}", name,
                    wanted.empty() ? "it" : wanted,
                    is_combined_ ? "CPUs and memory"
                    : is_cpu     ? "CPUs"
                                 : "memory",
                    rooms_of(candidates, taken));
}

std::string FirstFit::rooms_of(const std::vector<const Candidate*>& candidates, const Taken& taken) const {
  ShortList out;
  for (const Candidate* c : candidates) {
    const Device& d = *c->device;
    std::string rooms;
    if (c->driver == driver_) {
      if (const std::int64_t room = room_of(d, "", taken); room > 0) rooms += fmt::format("{}", room);
    }
    for (const auto& [key, range] : d.byte_ranges) {
      const std::int64_t room = room_of(d, key, taken);
      if (room <= 0) continue;
      rooms += (rooms.empty() ? "" : " + ") + memory::text_of({static_cast<std::uint64_t>(room)});
      if (is_combined_) rooms += " of " + key;
    }
    if (!rooms.empty()) out.add(d.name + " " + rooms);
  }
  return out.or_else("none");
}

}  // namespace dracpu::agent

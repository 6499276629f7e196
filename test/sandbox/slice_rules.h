// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What an API server does to a ResourceSlice before it stores it: drops fields of closed gates, refuses what
// breaks the rules, writes amounts in their canonical form.
//
// Source  spec kubelet-dra-wire 5.1 to 5.12. Written without a look at the driver's own code, so that both
// can be
//         wrong only independently. Counters and binding conditions are not covered: the driver has none.
// Threads No state.

#ifndef DRACPU_SANDBOX_SLICE_RULES_H_
#define DRACPU_SANDBOX_SLICE_RULES_H_

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dracpu::sandbox {

// The server that is played: its minor version and its gates.
struct ServerProfile {
  int minor = 37;
  bool consumable_capacity = true;
  bool device_taints = true;
  bool list_attributes = false;
  bool node_allocatable = false;
};

// One entry of details.causes in a 422 answer.
struct Cause {
  std::string field;
  std::string message;
};

// Names of the members that were taken out, for the Warning header.
std::vector<std::string> drop_closed_fields(const ServerProfile& profile, boost::json::object& slice);

std::vector<Cause> check_slice(const ServerProfile& profile, const boost::json::object& slice);
// What must not change in an update.
std::vector<Cause> check_slice_change(const boost::json::object& before, const boost::json::object& after);

// Amounts as the server stores them: "1000" becomes "1k". Call after check_slice found nothing.
void write_canonical_amounts(boost::json::object& slice);

// The amount as a number, or nothing if it is none.
std::optional<long double> parse_amount(std::string_view text);
std::string canonical_amount(std::string_view text);

}  // namespace dracpu::sandbox

#endif  // DRACPU_SANDBOX_SLICE_RULES_H_

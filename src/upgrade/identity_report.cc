// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include <algorithm>
#include <boost/json.hpp>

#include "base/escape.h"
#include "upgrade/identity.h"

namespace dracpu::upgrade {
namespace {

namespace json = boost::json;

std::string shown(std::string_view text) {
  std::string out = printable(text);
  std::replace(out.begin(), out.end(), '\n', ' ');
  return out;
}

std::string_view name_of(Leftover::Outcome outcome) {
  switch (outcome) {
    case Leftover::Outcome::kPlanned:
      return "planned";
    case Leftover::Outcome::kRemoved:
      return "removed";
    case Leftover::Outcome::kGone:
      return "gone";
    case Leftover::Outcome::kFailed:
      return "failed";
  }
  return "";
}

std::string line_of(const Leftover& left) {
  switch (left.outcome) {
    case Leftover::Outcome::kPlanned:
      return left.object;
    case Leftover::Outcome::kRemoved:
      return left.object + ": removed";
    case Leftover::Outcome::kGone:
      return left.object + ": gone already";
    case Leftover::Outcome::kFailed:
      return fmt::format("{}: NOT removed: {}", left.object, left.why);
  }
  return "";
}

void add_list(std::string& out, std::string_view title, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  out += fmt::format("\n{}:\n", title);
  for (const std::string& line : lines) out += fmt::format("  {}\n", shown(line));
}

std::string first_line(const IdentityPlan& plan) {
  if (plan.is_refused()) return "Refused; nothing was changed.";
  if (!plan.is_applied) return "This is the plan; nothing was changed.";
  return plan.has_failed() ? "Not everything could be removed; run it again." : "Done.";
}

json::array list_of(const std::vector<std::string>& lines) { return json::array(lines.begin(), lines.end()); }

}  // namespace

std::string to_text(const IdentityPlan& plan) {
  std::string out = fmt::format("The driver's name moves from \"{}\" to \"{}\". {}\n", shown(plan.move.from),
                                shown(plan.move.to), first_line(plan));
  add_list(out, "Refused, because", plan.refusals);
  add_list(out, "First, before anything is removed", plan.still_old);
  std::vector<std::string> lines;
  for (const Leftover& left : plan.leftovers) lines.push_back(line_of(left));
  add_list(out, plan.is_applied ? "Removed" : "To be removed with --apply", lines);
  add_list(out, "Kept", plan.kept);
  add_list(out, "To be changed by hand", plan.by_hand);
  out += fmt::format(
      "\nAfter that, on each node: dracpu cleanup --driver {} --apply\n"
      "The chart writes DeviceClass and admission policy under the new name by itself; its roles keep their "
      "names.\n",
      shown(plan.move.from));
  lines.clear();
  for (const NotChecked& n : plan.not_checked) lines.push_back(fmt::format("{}: {}", n.what, n.why));
  add_list(out, "NOT checked", lines);
  return out;
}

std::string to_json(const IdentityPlan& plan) {
  json::array remove;
  for (const Leftover& left : plan.leftovers) {
    json::object one{{"object", left.object}, {"outcome", name_of(left.outcome)}};
    if (!left.why.empty()) one["why"] = left.why;
    remove.push_back(std::move(one));
  }
  json::array not_checked;
  for (const NotChecked& n : plan.not_checked) not_checked.push_back({{"what", n.what}, {"why", n.why}});
  return json::serialize(json::object{{"from", plan.move.from},
                                      {"to", plan.move.to},
                                      {"applied", plan.is_applied},
                                      {"refused", list_of(plan.refusals)},
                                      {"stillOld", list_of(plan.still_old)},
                                      {"remove", std::move(remove)},
                                      {"kept", list_of(plan.kept)},
                                      {"byHand", list_of(plan.by_hand)},
                                      {"notChecked", std::move(not_checked)}}) +
         "\n";
}

}  // namespace dracpu::upgrade

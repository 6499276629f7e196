// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the API server sends: no input may crash a reader, quantities must survive being written again, and
// an accepted slice must still be planned for and written.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "kube/api_status.h"
#include "kube/claim.h"
#include "kube/line_splitter.h"
#include "kube/slice_codec.h"
#include "kube/slice_planner.h"

namespace {

using namespace dracpu;  // NOLINT(google-build-using-namespace): one file, one purpose

void require(bool holds) {
  if (!holds) std::abort();
}

void check_quantity(std::string_view text) {
  const Result<Quantity> q = Quantity::parse(text);
  if (!q.ok()) return;
  const Result<Quantity> again = Quantity::parse(q->to_string());
  require(again.ok() && *again == *q && again->to_string() == q->to_string());
  require(q->to_int64().has_value() == q->is_whole());
}

void check_slice(const kube::ServerSlice& slice) {
  const kube::SlicePlan plan = kube::plan_slices(slice.pool, "uid", {{"{}", ""}}, {slice});
  require(!plan.actions.empty());
  const kube::WireSlice wire = kube::encode_slice({}, {}, std::nullopt);
  require(!kube::update_body({"d", "n", "u", 1, 1}, slice, wire).empty());
}

void check_lines(std::string_view text) {
  std::string whole;
  std::string pieces;
  kube::LineSplitter once(text.size() + 1);
  kube::LineSplitter bytewise(text.size() + 1);
  const auto into = [](std::string& out) {
    return [&out](std::string_view line) {
      out.append(line).push_back('\n');
      return true;
    };
  };
  require(once.push(text, into(whole)).ok());
  for (std::size_t i = 0; i < text.size(); ++i) require(bytewise.push(text.substr(i, 1), into(pieces)).ok());
  require(whole == pieces);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_quantity(text);
  check_lines(text);
  if (const auto claim = kube::parse_claim(text); claim.ok()) require(!claim->uid.get().empty());
  if (const auto slice = kube::parse_slice(text); slice.ok()) check_slice(*slice);
  if (const auto event = kube::parse_watch_line(text); event.ok() && event->slice) check_slice(*event->slice);
  if (const auto list = kube::parse_slice_list(text); list.ok()) require(!list->resource_version.empty());
  (void)kube::parse_node_uid(text);
  (void)kube::parse_server_minor(text);
  (void)kube::describe_dropped(text, text);
  (void)kube::status_error({500, std::string(text), std::nullopt});
  return 0;
}

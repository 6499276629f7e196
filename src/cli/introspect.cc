// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/introspect.h"

#include <fmt/format.h>

#include <string_view>

#include "observe/escape.h"

namespace dracpu::cli {

std::string metrics_as_json(const std::vector<observe::MetricInfo>& metrics) {
  std::string out = "[";
  for (const observe::MetricInfo& metric : metrics) {
    out += &metric == metrics.data() ? "\n  {" : ",\n  {";
    const auto member = [&out](std::string_view key, std::string_view value) {
      out += fmt::format("\n    \"{}\": ", key);
      observe::append_json_string(out, value);
      out += ',';
    };
    member("name", metric.name);
    member("type", name_of(metric.kind));
    member("stability", "ALPHA");
    member("help", metric.help);
    out += "\n    \"labels\": [";
    for (const std::string_view& label : metric.labels) {
      out += &label == metric.labels.data() ? "\n      " : ",\n      ";
      observe::append_json_string(out, label);
    }
    out += metric.labels.empty() ? "]" : "\n    ]";
    out += "\n  }";
  }
  out += metrics.empty() ? "]\n" : "\n]\n";
  return out;
}

}  // namespace dracpu::cli

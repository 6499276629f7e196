// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/introspect.h"

#include <boost/json.hpp>
#include <string_view>

#include "cli/yaml_form.h"

namespace dracpu::cli {

std::string metrics_as_json(const std::vector<observe::MetricInfo>& metrics) {
  boost::json::array out;
  for (const observe::MetricInfo& metric : metrics) {
    out.push_back({{"name", metric.name},
                   {"type", name_of(metric.kind)},
                   {"stability", "ALPHA"},
                   {"help", metric.help},
                   {"labels", boost::json::array(metric.labels.begin(), metric.labels.end())}});
  }
  return to_pretty_json(out);
}

}  // namespace dracpu::cli

// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Values held against the chart's own closed schema, as Helm does before it applies anything.
//
// Schema   deploy/helm/dra-driver-cpu/values.schema.json, built in. Understood: type, properties,
//          additionalProperties, patternProperties (a value other than false lets everything pass), enum,
//          const, minimum, maximum, minLength, pattern, items, anyOf, oneOf and if/then/else with constant
//          properties. `required` counts only in driverConfig: the chart's defaults fill the rest.
// Null     A null takes a default away, so it is no value.
// Threads  Any; no state that changes.

#ifndef DRACPU_UPGRADE_CHART_SCHEMA_H_
#define DRACPU_UPGRADE_CHART_SCHEMA_H_

#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "config/yaml.h"

namespace dracpu::upgrade {

struct WrongValue {
  enum class Kind { kUnknown, kInvalid };
  Kind kind = Kind::kUnknown;
  config::Position at;
  std::string path;  // "args.logLevel", "tolerations[0].effect"
  std::string what;  // of kInvalid: "must be one of …"; of kUnknown: the key meant, or empty
};

// The chart's schema as text.
std::string_view chart_schema_text();

// In the order of the file, against the chart's schema or another one.
std::vector<WrongValue> check_against_chart(const config::YamlNode& values);
std::vector<WrongValue> check_against(const config::YamlNode& values, const boost::json::object& schema);

}  // namespace dracpu::upgrade

#endif  // DRACPU_UPGRADE_CHART_SCHEMA_H_

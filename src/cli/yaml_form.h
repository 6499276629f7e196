// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// JSON values and YAML text, both ways: manifests come as YAML, and people like to read it.
//
// Threads Any; no state.

#ifndef DRACPU_CLI_YAML_FORM_H_
#define DRACPU_CLI_YAML_FORM_H_

#include <boost/json/value.hpp>
#include <string>

#include "config/yaml.h"

namespace dracpu::cli {

// Numbers, booleans and nothing as YAML 1.1 reads them; a number that is no 64-bit integer stays text.
boost::json::value to_json(const config::YamlNode& node);

// Block style, texts quoted where a reader could take them for something else, with a final newline.
std::string to_yaml(const boost::json::value& value);

// The same data as JSON with two spaces of indent and a final newline.
std::string to_pretty_json(const boost::json::value& value);

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_YAML_FORM_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The form dracpu/v1beta1 described: for people as a table, for tools as a JSON schema.
//
// One list of fields gives both; tests hold it against what the reader accepts and the defaults it uses.
// Threads Pure.

#ifndef DRACPU_CONFIG_REFERENCE_H_
#define DRACPU_CONFIG_REFERENCE_H_

#include <string>
#include <string_view>
#include <vector>

namespace dracpu::config {

struct FieldDoc {
  enum class Type { kText, kWord, kYesNo, kNumber };

  std::string_view section;
  std::string_view key;
  Type type = Type::kText;
  std::vector<std::string_view> words;  // of kWord
  int least = 0;                        // of kNumber
  int most = 0;
  std::string_view unit;   // of kNumber; empty: none
  std::string_view usual;  // the default, in words where it depends; empty text: it has to be stated
  std::string_view meaning;
  std::string_view pattern{};  // of kText, for the schema; empty: any
};
// In the order of the form.
const std::vector<FieldDoc>& field_docs();

// A Markdown table, ended by a newline.
std::string reference_table();
// JSON schema, draft 7, closed: unknown keys are errors, as for the driver.
std::string json_schema();

}  // namespace dracpu::config

#endif  // DRACPU_CONFIG_REFERENCE_H_

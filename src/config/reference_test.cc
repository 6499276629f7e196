// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The description of the form against the reader, the defaults, and what is written down of it.

#include "config/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.h"
#include "config/load.h"
#include "config/parts.h"

namespace dracpu::config {
namespace {

using ::testing::HasSubstr;
using Type = FieldDoc::Type;

Result<Loaded> with(const FieldDoc& f, std::string_view value) {
  std::string text = "apiVersion: dracpu/v1beta1\nkind: DriverConfiguration\n";
  if (f.section == "node") {
    text += fmt::format("node:\n{}  {}: {}\n", f.key == "reservedCPUs" ? "" : "  reservedCPUs: none\n", f.key,
                        value);
  } else {
    text += fmt::format("node:\n  reservedCPUs: none\n{}:\n  {}: {}\n", f.section, f.key, value);
  }
  const FileText file{"/etc/c.yaml", std::move(text)};
  return resolve({}, {}, &file);
}

std::string place(const FieldDoc& f) { return fmt::format("{}.{}", f.section, f.key); }

TEST(Reference, HasEveryFieldInTheOrderOfTheFormWithItsDefault) {
  std::vector<std::string> form;
  for (const FieldText& f : fields_of(Config{})) form.push_back(fmt::format("{}.{}", f.section, f.key));
  std::vector<std::string> described;
  for (const FieldDoc& f : field_docs()) {
    EXPECT_FALSE(f.meaning.empty()) << place(f);
    described.push_back(place(f));
  }
  EXPECT_EQ(form, described);
  for (const FieldText& f : fields_of(Config{})) {
    const auto doc = std::find_if(field_docs().begin(), field_docs().end(), [&](const FieldDoc& d) {
      return d.section == f.section && d.key == f.key;
    });
    ASSERT_NE(doc, field_docs().end());
    std::string usual = f.usual;
    std::erase(usual, '"');
    if (doc->usual.starts_with('`') && f.key != "file") {
      EXPECT_EQ(doc->usual, "`" + usual + "`") << place(*doc);
    } else if (f.key != "file") {
      EXPECT_EQ(usual, "") << place(*doc) << " has a default that is not told";
    }
  }
}

TEST(Reference, IsWhatTheReaderAccepts) {
  for (const FieldDoc& f : field_docs()) {
    SCOPED_TRACE(place(f));
    std::vector<std::string> good;
    std::vector<std::string> bad = {"[1]", "{a: b}"};
    switch (f.type) {
      case Type::kYesNo:
        good = {"true", "false"};
        bad.insert(bad.end(), {"maybe", "1"});
        break;
      case Type::kNumber:
        good = {fmt::format("{}", f.least), fmt::format("{}", f.most)};
        bad.insert(bad.end(), {fmt::format("{}", f.least - 1), fmt::format("{}", f.most + 1), "many", "1.5"});
        break;
      case Type::kWord:
        for (const std::string_view w : f.words) {
          if (w != "machine") good.emplace_back(w);  // for an external allocator only
        }
        bad.insert(bad.end(), {"nonsense", "true"});
        break;
      case Type::kText:
        if (f.key == "reservedCPUs") {
          good = {"none", "0-1", "\"0,2-3\""};
          bad.insert(bad.end(), {"\"1-\"", "all", "\" 0 \"", "\"\""});
        }
        if (!f.pattern.empty() && f.key != "reservedCPUs") {
          good = {"/a/b"};
          bad.insert(bad.end(), {"a/b"});
        }
        break;
    }
    for (const std::string& value : good) {
      const Result<Loaded> got = with(f, value);
      EXPECT_TRUE(got.ok()) << value << ": " << (got.ok() ? "" : got.error().text);
    }
    for (const std::string& value : bad) {
      const Result<Loaded> got = with(f, value);
      ASSERT_FALSE(got.ok()) << value;
      EXPECT_THAT(got.error().text, HasSubstr(f.key)) << value;
    }
  }
}

std::string content(const std::string& path) {
  return read_file(std::string(DRACPU_SOURCE_DIR) + "/" + path).value();
}

TEST(Reference, IsWrittenDownAsItIs) {
  EXPECT_THAT(content("docs/user/configuration.md"), HasSubstr(reference_table()))
      << "put the output of \"dracpu config reference\" there";
  EXPECT_EQ(content("deploy/config/v1beta1.schema.json"), json_schema())
      << "write it with: dracpu config schema >deploy/config/v1beta1.schema.json";
}

}  // namespace
}  // namespace dracpu::config

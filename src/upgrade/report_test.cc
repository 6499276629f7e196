// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "upgrade/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <set>

#include "base/file.h"
#include "base/strings.h"
#include "upgrade/test_facts.h"

namespace dracpu::upgrade {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

Finding finding(Severity severity, const std::string& id, const std::string& object) {
  return {severity, id, object, "what " + id, "fix " + id, std::string(section::kKubelet)};
}

TEST(Report, FindingsThatDifferInTheObjectStandTogether) {
  Report report;
  for (int i = 0; i < 22; ++i)
    report.findings.push_back(finding(Severity::kError, "b", fmt::format("Node {:02}", i)));
  report.findings.push_back(finding(Severity::kWarning, "a", "Node x"));
  report.findings.push_back(finding(Severity::kError, "a", "Node y"));
  report.findings.push_back(finding(Severity::kError, "a", "Node y"));
  report.checked = {{"Nodes", "22"}, {"chart values", ""}};
  sort_findings(report.findings);
  EXPECT_EQ(report.findings.size(), 24U) << "the same twice counts once";
  EXPECT_TRUE(report.has_errors());
  const std::string text = to_text(report);
  EXPECT_THAT(text, HasSubstr("23 errors, 1 warning, 0 notes\nThe move would break something.\n"
                              "\nERROR a\n  where  Node y\n  what   what a\n  fix    fix a\n"
                              "  read   docs/user/upgrading.md#kubelet-managers\n"
                              "\nERROR b\n  where  Node 00\n  where  Node 01\n"));
  EXPECT_THAT(text, HasSubstr("  where  Node 19\n         and 2 more; -o json names all\n  what   what b\n"));
  EXPECT_THAT(text, HasSubstr("\nWARNING a\n  where  Node x\n"));
  EXPECT_THAT(text, HasSubstr("\nChecked: Nodes (22), chart values\n"));
}

TEST(Report, NothingFoundSaysHowFarItLooked) {
  Report report;
  EXPECT_THAT(to_text(report), HasSubstr("Nothing found that breaks the move.\n"));
  EXPECT_THAT(to_text(report), HasSubstr("Checked: nothing\n"));
  report.not_checked = {{"Nodes", "HTTP 403"}};
  EXPECT_THAT(to_text(report),
              HasSubstr("; 1 NOT checked\nNothing found that breaks the move, as far as could be seen.\n"));
  EXPECT_THAT(to_text(report), HasSubstr("\nNOT checked:\n  Nodes: HTTP 403\n"));
  report.not_checked.assign(23, {"x", "y"});
  EXPECT_THAT(to_text(report), HasSubstr("  and 3 more; -o json names all\n"));
}

TEST(Report, WordsOfTheClusterStayOnTheirLine) {
  Report report;
  report.findings = {
      {Severity::kInfo, "id", "ResourceClaim a/\nERROR fake", "red \x1b[31m and \xff", "fix\r", "x"}};
  report.not_checked = {{"a\nb", "c\x07"}};
  const std::string text = to_text(report);
  EXPECT_THAT(text, HasSubstr("NOTE id\n  where  ResourceClaim a/ ERROR fake\n"));
  EXPECT_THAT(text, HasSubstr("red \\x1b[31m and \\xff\n"));
  EXPECT_THAT(text, HasSubstr("  a b: c\\x07\n"));
  for (const char c : {'\x1b', '\r', '\x07'}) EXPECT_EQ(text.find(c), std::string::npos);
}

TEST(Report, Json) {
  Report report;
  report.findings = {finding(Severity::kWarning, "a", "Node \"x\"\n")};
  report.checked = {{"Nodes", "1"}};
  report.not_checked = {{"claims", "HTTP 403"}};
  const std::string text = to_json(report);
  EXPECT_TRUE(text.ends_with("}\n"));
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const json::value root = json::parse(text);
  EXPECT_EQ(json::serialize(root.at("findings").at(0)),
            R"({"severity":"warning","id":"a","object":"Node \"x\"\n","message":"what a","fix":"fix a",)"
            R"("section":"kubelet managers"})");
  EXPECT_EQ(json::serialize(root.at("checked")), R"(["Nodes"])");
  EXPECT_EQ(json::serialize(root.at("notChecked")), R"([{"what":"claims","why":"HTTP 403"}])");
}

// Anchors as a forge makes them of headings.
std::set<std::string> anchors_in(const std::string& text) {
  std::set<std::string> out;
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with("## ") && !line.starts_with("### ")) continue;
    std::string anchor;
    for (const char c : line.substr(line.find(' ') + 1)) {
      if (c == ' ') anchor += '-';
      if (c >= 'A' && c <= 'Z') anchor += static_cast<char>(c - 'A' + 'a');
      if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_') anchor += c;
    }
    out.insert(std::move(anchor));
  }
  return out;
}

TEST(Documents, EverySectionIsAHeadingOfTheGuide) {
  const std::set<std::string> anchors =
      anchors_in(read_file(DRACPU_SOURCE_DIR "/docs/user/upgrading.md").value());
  for (const std::string_view title :
       {section::kRequirements, section::kConfiguration, section::kMachine, section::kIndividual,
        section::kOpaque, section::kAdminAccess, section::kGrouping, section::kValues, section::kManifest,
        section::kOneDriver, section::kSurge, section::kKubelet, section::kIdentity, section::kMemory}) {
    std::string anchor(title);
    std::replace(anchor.begin(), anchor.end(), ' ', '-');
    EXPECT_TRUE(anchors.contains(anchor)) << title;
  }
}

TEST(Documents, TheManualListsEveryFinding) {
  const std::string manual = read_file(DRACPU_SOURCE_DIR "/docs/user/upgrade-check.md").value();
  const std::set<std::string> anchors =
      anchors_in(read_file(DRACPU_SOURCE_DIR "/docs/user/upgrading.md").value());
  std::set<std::string> listed;
  for (const std::string_view line : split(manual, '\n')) {
    if (!line.starts_with("| `")) continue;
    const std::string id(line.substr(3, line.find('`', 3) - 3));
    const std::size_t at = line.find("(upgrading.md#");
    if (at == std::string_view::npos) continue;
    const std::string_view rest = line.substr(at + 14);
    listed.insert(id);
    EXPECT_TRUE(anchors.contains(std::string(rest.substr(0, rest.find(')'))))) << line;
  }
  EXPECT_EQ(listed, std::set<std::string>(kAllIds.begin(), kAllIds.end()));
}

}  // namespace
}  // namespace dracpu::upgrade

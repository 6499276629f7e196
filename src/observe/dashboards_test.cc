// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The dashboard and the alert rules ask for metrics that exist, with labels that they have, and every metric
// of ours is on the dashboard. The exposition keeps the rules that promtool checks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <boost/regex.hpp>

#include <set>

#include "base/file.h"
#include "base/strings.h"
#include "observe/metrics.h"

namespace dracpu::observe {
namespace {

std::string content(const std::string& path) {
  return read_file(std::string(DRACPU_SOURCE_DIR) + "/" + path).value();
}

// Names with the suffixes that a histogram adds.
std::set<std::string> series() {
  std::set<std::string> out = {"dracpu_build_info", "process_resident_memory_bytes"};
  for (const MetricInfo& m : Metrics().described()) {
    const std::string name(m.name);
    out.insert(name);
    if (m.kind != MetricKind::kHistogram) continue;
    for (const char* suffix : {"_bucket", "_count", "_sum"}) out.insert(name + suffix);
  }
  return out;
}

std::set<std::string> used_in(const std::string& text) {
  static const boost::regex name("\\b(dra_?cpu|process)_[a-z_]+");
  std::set<std::string> out;
  for (auto it = boost::sregex_iterator(text.begin(), text.end(), name); it != boost::sregex_iterator(); ++it)
    out.insert(it->str());
  return out;
}

TEST(Dashboards, AskForMetricsThatExist) {
  const std::set<std::string> known = series();
  for (const char* path : {"deploy/dashboards/dracpu.json", "deploy/dashboards/alerts.yaml"}) {
    const std::set<std::string> used = used_in(content(path));
    EXPECT_GT(used.size(), 10U) << path;
    for (const std::string& name : used) EXPECT_TRUE(known.contains(name)) << path << ": " << name;
  }
}

TEST(Dashboards, ShowEveryMetricOfTheDriver) {
  const std::set<std::string> used = used_in(content("deploy/dashboards/dracpu.json"));
  // Answers to a stop are dull; one without a stop before is an alert.
  const std::set<std::string> left_out = {"dra_cpu_nri_stop_container_duration_seconds",
                                          "dra_cpu_nri_remove_container_duration_seconds",
                                          "dra_cpu_unprepare_claim_duration_seconds"};
  for (const MetricInfo& m : Metrics().described()) {
    const std::string name(m.name);
    EXPECT_TRUE(left_out.contains(name) || used.contains(name) || used.contains(name + "_bucket")) << name;
  }
}

TEST(Dashboards, TheDashboardIsOneThatGrafanaReads) {
  boost::json::error_code ec;
  const boost::json::value root = boost::json::parse(content("deploy/dashboards/dracpu.json"), ec);
  ASSERT_FALSE(ec) << ec.message();
  std::set<std::string> titles;
  for (const boost::json::value& panel : root.at("panels").as_array()) {
    const std::string title(panel.at("title").as_string());
    EXPECT_TRUE(titles.insert(title).second) << title << " is there twice";
    for (const boost::json::value& target : panel.at("targets").as_array()) {
      const std::string expr(target.at("expr").as_string());
      EXPECT_EQ(std::count(expr.begin(), expr.end(), '('), std::count(expr.begin(), expr.end(), ')')) << expr;
      EXPECT_NE(expr.find("$node"), std::string::npos) << expr;
    }
  }
}

// Labels that rules and panels group by are those of a metric, or of the scrape.
TEST(Dashboards, GroupByLabelsThatExist) {
  std::set<std::string> labels = {"node", "le", "version", "revision"};
  for (const MetricInfo& m : Metrics().described()) labels.insert(m.labels.begin(), m.labels.end());
  static const boost::regex group("(?:by|on) \\(([a-z_, ]+)\\)|labels\\.([a-z_]+)");
  for (const char* path : {"deploy/dashboards/dracpu.json", "deploy/dashboards/alerts.yaml"}) {
    const std::string text = content(path);
    for (auto it = boost::sregex_iterator(text.begin(), text.end(), group); it != boost::sregex_iterator();
         ++it) {
      const std::string list = (*it)[1].matched ? (*it)[1].str() : (*it)[2].str();
      for (const std::string_view label : split(list, ','))
        EXPECT_TRUE(labels.contains(std::string(trim(label)))) << path << ": " << label;
    }
  }
}

TEST(Dashboards, EveryAlertHasItsSectionInTheManual) {
  const std::string manual = content("docs/user/alerts.md");
  const std::string rules = content("deploy/dashboards/alerts.yaml");
  static const boost::regex alert("- alert: (\\w+)");
  std::size_t n = 0;
  for (auto it = boost::sregex_iterator(rules.begin(), rules.end(), alert); it != boost::sregex_iterator();
       ++it, ++n)
    EXPECT_NE(manual.find("## " + (*it)[1].str() + "\n"), std::string::npos) << (*it)[1].str();
  EXPECT_GT(n, 8U);
}

// Names, units, help and types as Prometheus' naming rules want them.
TEST(Exposition, KeepsTheNamingRules) {
  const std::vector<std::string_view> units_that_are_not_basic = {
      "_ms", "_milliseconds", "_minutes", "_hours", "_kilobytes", "_mb", "_percent"};
  std::set<std::string> names;
  for (const MetricInfo& m : Metrics().described()) {
    SCOPED_TRACE(m.name);
    EXPECT_TRUE(boost::regex_match(std::string(m.name), boost::regex("[a-z][a-z0-9]*(_[a-z0-9]+)*")));
    EXPECT_TRUE(names.insert(std::string(m.name)).second) << "twice";
    EXPECT_FALSE(m.help.empty());
    EXPECT_EQ(m.kind == MetricKind::kCounter, m.name.ends_with("_total"))
        << "_total is for counters, and for all";
    for (const char* suffix : {"_count", "_sum", "_bucket"}) EXPECT_FALSE(m.name.ends_with(suffix));
    for (const char* type : {"_counter", "_gauge", "_histogram", "_summary"})
      EXPECT_FALSE(m.name.ends_with(type));
    for (const std::string_view unit : units_that_are_not_basic) EXPECT_FALSE(m.name.ends_with(unit));
    for (const auto& label : m.labels) {
      EXPECT_TRUE(boost::regex_match(std::string(label), boost::regex("[a-z][a-z0-9_]*")));
      EXPECT_TRUE(label != "le" && label != "quantile") << "reserved";
    }
  }
}

// Every line of both formats: help and type before the first sample of a family, no family in two pieces, no
// series twice, no value that is not a number.
TEST(Exposition, IsWellFormed) {
  Metrics metrics;
  metrics.api_errors_total.inc("slices");
  metrics.claims_refused_total.inc("a \"quoted\"\n reason\\");
  metrics.prepare_claim_duration_seconds.observe(0.01);
  for (const TextFormat format : {TextFormat::kPrometheus, TextFormat::kOpenMetrics}) {
    const std::string text = metrics.render(format);
    ASSERT_TRUE(text.ends_with('\n'));
    static const boost::regex sample("([a-zA-Z_:][a-zA-Z0-9_:]*)(\\{.*\\})? (\\S+)");
    std::set<std::string> helped;
    std::set<std::string> finished;
    std::set<std::string> seen;
    std::string family;
    for (const std::string_view line : split(std::string_view(text).substr(0, text.size() - 1), '\n')) {
      if (line == "# EOF") continue;
      const std::vector<std::string_view> words = split(line, ' ');
      if (line.starts_with("# HELP ")) {
        EXPECT_TRUE(helped.insert(std::string(words[2])).second) << line;
        EXPECT_GT(words.size(), 3U) << line;
        continue;
      }
      if (line.starts_with("# TYPE ")) {
        if (!family.empty()) finished.insert(family);
        family = words[2];
        EXPECT_TRUE(helped.contains(family)) << line;
        EXPECT_FALSE(finished.contains(family)) << line;
        continue;
      }
      if (line.starts_with("# UNIT ")) continue;
      boost::smatch m;
      const std::string whole(line);
      ASSERT_TRUE(boost::regex_match(whole, m, sample)) << line;
      EXPECT_TRUE(m[1].str().starts_with(family)) << line;
      EXPECT_TRUE(seen.insert(m[1].str() + m[2].str()).second) << line;
      std::size_t used = 0;
      EXPECT_NO_THROW((void)std::stod(m[3].str(), &used)) << line;
      EXPECT_EQ(used, m[3].str().size()) << line;
    }
    EXPECT_EQ(text.ends_with("# EOF\n"), format == TextFormat::kOpenMetrics);
  }
}

}  // namespace
}  // namespace dracpu::observe

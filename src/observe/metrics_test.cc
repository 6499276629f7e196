// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "observe/metrics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "base/strings.h"
#include "observe/process_metrics.h"

namespace dracpu::observe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Metrics, TheThirteenOfRelease030) {
  struct Case {
    const char* name;
    MetricKind kind;
    std::vector<std::string_view> labels;
  };
  const std::vector<std::string_view> result = {"result"};
  const std::vector<std::string_view> both = {"result", "cpu_allocation_mode"};
  const std::vector<Case> want = {
      {"dra_cpu_allocated_cpus", MetricKind::kGauge, {}},
      {"dra_cpu_available_cpus", MetricKind::kGauge, {}},
      {"dra_cpu_reserved_cpus", MetricKind::kGauge, {}},
      {"dra_cpu_resource_claims_active", MetricKind::kGauge, {}},
      {"dra_cpu_prepare_claims_total", MetricKind::kCounter, result},
      {"dra_cpu_unprepare_claims_total", MetricKind::kCounter, result},
      {"dra_cpu_prepare_claim_duration_seconds", MetricKind::kHistogram, {}},
      {"dra_cpu_unprepare_claim_duration_seconds", MetricKind::kHistogram, {}},
      {"dra_cpu_claim_allocated_cpus", MetricKind::kHistogram, {}},
      {"dra_cpu_nri_synchronize_duration_seconds", MetricKind::kHistogram, result},
      {"dra_cpu_nri_create_container_duration_seconds", MetricKind::kHistogram, both},
      {"dra_cpu_nri_stop_container_duration_seconds", MetricKind::kHistogram, both},
      {"dra_cpu_nri_remove_container_duration_seconds", MetricKind::kHistogram, both},
  };
  const Metrics metrics;
  const std::vector<MetricInfo> got = metrics.described();
  const std::string text = metrics.render(TextFormat::kPrometheus);
  ASSERT_GE(got.size(), want.size());
  std::size_t last = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    SCOPED_TRACE(want[i].name);
    EXPECT_EQ(got[i].name, want[i].name);
    EXPECT_EQ(got[i].kind, want[i].kind);
    EXPECT_EQ(got[i].labels, want[i].labels);
    EXPECT_FALSE(got[i].help.empty());
    const std::size_t at = text.find(fmt::format("# TYPE {} {}\n", want[i].name, name_of(want[i].kind)));
    ASSERT_NE(at, std::string::npos);
    EXPECT_GE(at, last);
    last = at;
  }
  EXPECT_EQ(count_of(text, "# TYPE dra_cpu_"), 13U) << "ours have another prefix";
}

TEST(Metrics, CountersBeginWithAllResults) {
  Metrics metrics;
  metrics.prepare_claims_total.inc(Outcome::kError);
  const std::string text = metrics.render(TextFormat::kPrometheus);
  EXPECT_THAT(text, HasSubstr("# TYPE dra_cpu_prepare_claims_total counter\n"
                              "dra_cpu_prepare_claims_total{result=\"success\"} 0\n"
                              "dra_cpu_prepare_claims_total{result=\"error\"} 1\n"
                              "dra_cpu_prepare_claims_total{result=\"unknown\"} 0\n"));
  EXPECT_EQ(metrics.prepare_claims_total.value(Outcome::kError), 1U);
}

std::vector<std::string> bounds_of(std::string_view text, std::string_view prefix) {
  std::vector<std::string> out;
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with(prefix)) continue;
    const std::size_t le = line.find("le=\"") + 4;
    out.emplace_back(line.substr(le, line.find('"', le) - le));
  }
  return out;
}

TEST(Metrics, Buckets) {
  Metrics metrics;
  metrics.nri_create_container_duration_seconds.observe(Outcome::kSuccess, AllocationMode::kExclusive,
                                                        0.0003);
  metrics.nri_synchronize_duration_seconds.observe(Outcome::kError, 3.0);
  const std::string text = metrics.render(TextFormat::kPrometheus);
  EXPECT_THAT(bounds_of(text, "dra_cpu_prepare_claim_duration_seconds_bucket"),
              ::testing::ElementsAre("0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5",
                                     "10", "+Inf"));
  EXPECT_THAT(
      bounds_of(text, "dra_cpu_claim_allocated_cpus_bucket"),
      ::testing::ElementsAre("1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024", "+Inf"));
  EXPECT_THAT(bounds_of(text, "dra_cpu_nri_create_container_duration_seconds_bucket"),
              ::testing::ElementsAre("0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01",
                                     "0.025", "0.05", "0.1", "0.25", "0.5", "1", "1.5", "2", "5", "+Inf"));
  EXPECT_THAT(text, HasSubstr("dra_cpu_nri_create_container_duration_seconds_bucket{result=\"success\","
                              "cpu_allocation_mode=\"exclusive\",le=\"0.00025\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("cpu_allocation_mode=\"exclusive\",le=\"0.0005\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("dra_cpu_nri_create_container_duration_seconds_count{result=\"success\","
                              "cpu_allocation_mode=\"exclusive\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("dra_cpu_nri_synchronize_duration_seconds_sum{result=\"error\"} 3\n"));
  EXPECT_THAT(text, Not(HasSubstr("cpu_allocation_mode=\"unknown\"")))
      << "a labelled histogram has no series before its first sample";
}

TEST(Metrics, ABoundBelongsToItsBucket) {
  Metrics metrics;
  for (const double cpus : {1.0, 2.0, 3.0, 2000.0}) metrics.claim_allocated_cpus.observe(cpus);
  const std::string text = metrics.render(TextFormat::kPrometheus);
  for (const char* line :
       {"_bucket{le=\"1\"} 1\n", "_bucket{le=\"2\"} 2\n", "_bucket{le=\"4\"} 3\n", "_bucket{le=\"1024\"} 3\n",
        "_bucket{le=\"+Inf\"} 4\n", "_sum 2006\n", "_count 4\n"}) {
    EXPECT_THAT(text, HasSubstr(std::string("dra_cpu_claim_allocated_cpus") + line));
  }
}

TEST(Metrics, TextLabelsAreEscapedAndBounded) {
  Metrics metrics;
  metrics.start_step_duration_seconds.set("a\"b\\c\nd", 0.5);
  metrics.start_step_duration_seconds.set("guard", 1);
  metrics.start_step_duration_seconds.set("guard", 2);
  for (std::size_t i = 0; i < 2 * kMaxTextLabels; ++i) metrics.api_errors_total.inc(fmt::format("op{}", i));
  const std::string text = metrics.render(TextFormat::kPrometheus);
  EXPECT_THAT(text, HasSubstr("dracpu_start_step_duration_seconds{step=\"a\\\"b\\\\c\\nd\"} 0.5\n"));
  EXPECT_THAT(text, HasSubstr("dracpu_start_step_duration_seconds{step=\"guard\"} 2\n"));
  EXPECT_EQ(count_of(text, "dracpu_api_errors_total{"), kMaxTextLabels);
  EXPECT_EQ(metrics.api_errors_total.value("other"), kMaxTextLabels + 1);
}

TEST(Metrics, EverySampleLineIsWellFormed) {
  Metrics metrics;
  metrics.owner.set(true);
  metrics.stale_pool_seconds.set(1.5);
  metrics.nri_stop_container_duration_seconds.observe(Outcome::kUnknown, AllocationMode::kUnknown, 9);
  for (const TextFormat format : {TextFormat::kPrometheus, TextFormat::kOpenMetrics}) {
    std::string family;
    const std::string text = metrics.render(format);
    ASSERT_TRUE(text.ends_with('\n'));
    for (const std::string_view line : split(std::string_view(text).substr(0, text.size() - 1), '\n')) {
      SCOPED_TRACE(line);
      if (line == "# EOF") continue;
      if (line.starts_with("# HELP ")) continue;
      if (line.starts_with("# TYPE ")) {
        family = split(line, ' ')[2];
        continue;
      }
      EXPECT_TRUE(line.starts_with(family)) << "a sample stands below its own TYPE";
      const std::string_view number = line.substr(line.rfind(' ') + 1);
      EXPECT_TRUE(parse_number<double>(number).has_value());
    }
  }
}

TEST(Metrics, OpenMetrics) {
  Metrics metrics;
  const std::string text = metrics.render(TextFormat::kOpenMetrics);
  EXPECT_TRUE(text.ends_with("\n# EOF\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE dra_cpu_prepare_claims counter\ndra_cpu_prepare_claims_total{"));
  EXPECT_THAT(text, HasSubstr("le=\"1.0\""));
  EXPECT_THAT(text, Not(HasSubstr("le=\"1\"")));
  EXPECT_THAT(metrics.render(TextFormat::kPrometheus), Not(HasSubstr("# EOF")));
}

TEST(Metrics, NegotiatesAsPrometheusAsks) {
  struct Case {
    const char* about;
    const char* accept;
    TextFormat want;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"nothing", "", TextFormat::kPrometheus},
           {"curl", "*/*", TextFormat::kPrometheus},
           {"a browser", "text/html,application/xhtml+xml,*/*;q=0.8", TextFormat::kPrometheus},
           {"Prometheus 2",
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
            "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            TextFormat::kOpenMetrics},
           {"plain preferred",
            "application/openmetrics-text;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.9",
            TextFormat::kPrometheus},
           {"refused by quality", "application/openmetrics-text;q=0", TextFormat::kPrometheus},
           {"a version we lack", "application/openmetrics-text;version=2.0.0", TextFormat::kPrometheus},
           {"spaces", " application/openmetrics-text ; version=1.0.0 ; q=1.000 ", TextFormat::kOpenMetrics},
           {"nonsense quality", "application/openmetrics-text;q=high", TextFormat::kPrometheus},
           {"nonsense", ";;,,=;q=", TextFormat::kPrometheus},
       }) {
    SCOPED_TRACE(c.about);
    EXPECT_EQ(negotiate(c.accept), c.want);
  }
  EXPECT_THAT(content_type_of(TextFormat::kPrometheus), HasSubstr("version=0.0.4"));
  EXPECT_THAT(content_type_of(TextFormat::kOpenMetrics),
              HasSubstr("application/openmetrics-text; version=1.0.0"));
}

TEST(Metrics, ManyThreadsLoseNothing) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  Metrics metrics;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < kRounds; ++i) {
          metrics.prepare_claims_total.inc(Outcome::kSuccess);
          metrics.prepare_claim_duration_seconds.observe(0.5);
          metrics.available_cpus.set(i);
          metrics.api_errors_total.inc("get");
          if (i % 500 == 0) {
            EXPECT_FALSE(metrics.render(TextFormat::kPrometheus).empty());
          }
        }
      });
    }
  }
  EXPECT_EQ(metrics.prepare_claims_total.value(Outcome::kSuccess), kThreads * kRounds);
  EXPECT_EQ(metrics.prepare_claim_duration_seconds.samples().count(), kThreads * kRounds);
  EXPECT_EQ(metrics.prepare_claim_duration_seconds.samples().sum(), kThreads * kRounds * 0.5);
  EXPECT_EQ(metrics.api_errors_total.value("get"), kThreads * kRounds);
}

TEST(ProcessMetrics, OfThisProcess) {
  std::string out;
  append_process_metrics(out, TextFormat::kPrometheus);
  for (const char* name : {"process_cpu_seconds_total", "process_open_fds", "process_resident_memory_bytes",
                           "process_virtual_memory_bytes", "process_start_time_seconds"}) {
    SCOPED_TRACE(name);
    const std::size_t at = out.find(fmt::format("\n{} ", name));
    ASSERT_NE(at, std::string::npos);
    const std::size_t begin = at + std::string_view(name).size() + 2;
    const auto value =
        parse_number<double>(std::string_view(out).substr(begin, out.find('\n', begin) - begin));
    ASSERT_TRUE(value.has_value());
    EXPECT_GE(*value, 0.0);
  }
}

TEST(ProcessMetrics, NameWithBracketsAndSpaces) {
  const std::filesystem::path proc = std::filesystem::path(testing::TempDir()) / "proc_metrics";
  std::filesystem::create_directories(proc / "self/fd");
  for (const char* fd : {"0", "1", "2", "9"}) std::ofstream(proc / "self/fd" / fd) << "";
  std::ofstream(proc / "self/stat")
      << "7 (a) R 9 9) S 1 7 7 0 -1 4194304 100 0 0 0 200 100 0 0 20 0 12 0 5000 "
         "1048576 256 18446744073709551615 1 1 0\n";
  std::ofstream(proc / "stat") << "cpu 1 2 3\nbtime 1700000000\n";
  std::string out;
  append_process_metrics(out, TextFormat::kPrometheus, proc);
  EXPECT_THAT(out, HasSubstr("\nprocess_cpu_seconds_total 3\n"));
  EXPECT_THAT(out, HasSubstr("\nprocess_open_fds 3\n"));
  EXPECT_THAT(out, HasSubstr("\nprocess_resident_memory_bytes 1048576\n"));
  EXPECT_THAT(out, HasSubstr("\nprocess_start_time_seconds 1700000050\n"));
  EXPECT_THAT(out, HasSubstr("\nprocess_threads 12\n"));
  std::filesystem::remove_all(proc);
  out.clear();
  append_process_metrics(out, TextFormat::kPrometheus, proc);
  EXPECT_THAT(out, Not(HasSubstr("process_cpu_seconds_total"))) << "what cannot be read is left out";
}

// The list of the manual, and there only where memory is on.
TEST(MemoryMetrics, AreThoseOfTheManual) {
  const std::string manual = read_file(DRACPU_SOURCE_DIR "/docs/user/memory.md").value();
  std::vector<std::string> names;
  for (const MetricInfo& info : MemoryMetrics().described()) {
    EXPECT_THAT(manual, HasSubstr(fmt::format("`{}`", info.name)));
    names.emplace_back(info.name.substr(std::string_view("dra_memory_").size()));
  }
  EXPECT_THAT(
      names, ::testing::ElementsAre("capacity_bytes", "reserved_bytes", "allocated_bytes", "available_bytes",
                                    "hugepages_free_bytes", "resource_claims_active", "prepare_claims_total",
                                    "unprepare_claims_total", "prepare_claim_duration_seconds",
                                    "container_rejections_total", "rescans_total", "accounting_drift_bytes"));
  EXPECT_THAT(Metrics().render(TextFormat::kPrometheus), Not(HasSubstr("dra_memory")));
}

TEST(MemoryMetrics, DriftIsNotThereBeforeItWasMeasured) {
  MemoryMetrics metrics;
  const auto text = [&] {
    std::string out;
    metrics.append(out, TextFormat::kPrometheus);
    return out;
  };
  EXPECT_THAT(text(), Not(HasSubstr("\ndra_memory_accounting_drift_bytes ")));
  metrics.accounting_drift_bytes.set(-536870912);
  EXPECT_THAT(text(), HasSubstr("\ndra_memory_accounting_drift_bytes -536870912\n"));
}

}  // namespace
}  // namespace dracpu::observe

// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/go_flags.h"
#include "cli/introspect.h"
#include "cli/run.h"
#include "observe/metrics.h"

namespace dracpu::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Kind = CommandLine::Kind;
using Args = std::vector<std::string>;

TEST(CommandLine, NothingGivenSetsNothing) {
  const CommandLine got = parse_command_line({});
  EXPECT_EQ(got.kind, Kind::kDaemon);
  EXPECT_FALSE(got.flags.config || got.flags.kubeconfig || got.flags.bind_address ||
               got.flags.expose_pcie_roots || got.flags.kubelet_root_dir || got.flags.cpu_device_mode ||
               got.flags.group_by || got.flags.reserved_cpus || got.flags.hostname_override ||
               got.flags.sysfs_overlay || got.flags.verbosity || got.flags.vmodule);
}

TEST(CommandLine, EveryTextFlagInEveryForm) {
  struct Case {
    const char* name;
    std::optional<std::string> config::Flags::*member;
    const char* value;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"config", &config::Flags::config, "/etc/c.yaml"},
           {"kubeconfig", &config::Flags::kubeconfig, "/k"},
           {"bind-address", &config::Flags::bind_address, ":8081"},
           {"kubelet-root-dir", &config::Flags::kubelet_root_dir, "/data"},
           {"cpu-device-mode", &config::Flags::cpu_device_mode, "individual"},
           {"group-by", &config::Flags::group_by, "machine"},
           {"reserved-cpus", &config::Flags::reserved_cpus, "0-1,4"},
           {"hostname-override", &config::Flags::hostname_override, "a b=c"},
           {"sysfs-overlay", &config::Flags::sysfs_overlay, "-odd"},
           {"vmodule", &config::Flags::vmodule, "agent=4,nri*=6"},
       }) {
    const std::string name = c.name;
    for (const Args& args : {Args{"--" + name + "=" + c.value}, Args{"--" + name, c.value},
                             Args{"-" + name + "=" + c.value}, Args{"-" + name, c.value}}) {
      SCOPED_TRACE(args.front());
      const CommandLine got = parse_command_line(args);
      ASSERT_EQ(got.kind, Kind::kDaemon) << got.text;
      EXPECT_EQ(got.flags.*c.member, c.value);
    }
  }
}

TEST(CommandLine, EmptyValuesAreGiven) {
  for (const Args& args :
       {Args{"--reserved-cpus="}, Args{"--reserved-cpus", ""}, Args{"-reserved-cpus=", "--v=2"}}) {
    const CommandLine got = parse_command_line(args);
    ASSERT_EQ(got.kind, Kind::kDaemon) << got.text;
    EXPECT_EQ(got.flags.reserved_cpus, "");
  }
}

TEST(CommandLine, LevelsAndBooleans) {
  for (const Args& args :
       {Args{"-v=4"}, Args{"--v=4"}, Args{"-v", "4"}, Args{"--v", "4"}, Args{"-v=2", "-v=4"}}) {
    const CommandLine got = parse_command_line(args);
    ASSERT_EQ(got.kind, Kind::kDaemon) << got.text;
    EXPECT_EQ(got.flags.verbosity, 4);
  }
  EXPECT_EQ(parse_command_line({"--v", "-1"}).flags.verbosity, -1);
  for (const auto& [arg, on] :
       std::initializer_list<std::pair<const char*, bool>>{{"--expose-pcie-roots", true},
                                                           {"-expose-pcie-roots", true},
                                                           {"--expose-pcie-roots=true", true},
                                                           {"--expose-pcie-roots=1", true},
                                                           {"--expose-pcie-roots=F", false},
                                                           {"-expose-pcie-roots=false", false}}) {
    SCOPED_TRACE(arg);
    const CommandLine got = parse_command_line({arg, "--v=1"});
    ASSERT_EQ(got.kind, Kind::kDaemon) << got.text;
    EXPECT_EQ(got.flags.expose_pcie_roots, on);
    EXPECT_EQ(got.flags.verbosity, 1) << "a boolean takes no second word";
  }
}

TEST(CommandLine, OtherKlogFlagsAreIgnored) {
  const CommandLine got = parse_command_line(
      {"--logtostderr", "--stderrthreshold=2", "-log_dir", "/x", "--alsologtostderr=false", "--v=3"});
  ASSERT_EQ(got.kind, Kind::kDaemon) << got.text;
  EXPECT_THAT(got.ignored, ElementsAre("logtostderr", "stderrthreshold", "log_dir", "alsologtostderr"));
  EXPECT_EQ(got.flags.verbosity, 3);
}

TEST(CommandLine, Refuses) {
  struct Case {
    const char* about;
    Args args;
    int status;
    const char* told;
  };
  for (const Case& c : std::vector<Case>{
           {"unknown flag", {"--nonsense"}, 2, "\"--nonsense\" is not known"},
           {"unknown flag with value", {"--nonsense=secret"}, 2, "\"--nonsense\" is not known"},
           {"old flag", {"--show-metrics"}, 2, "--show-metrics"},
           {"other letters", {"--Config=x"}, 2, "--Config"},
           {"no value", {"--config"}, 2, "--config=VALUE"},
           {"bad mode", {"--cpu-device-mode=shared"}, 2, "--cpu-device-mode"},
           {"bad mode names the choices", {"--cpu-device-mode=shared"}, 2, "individual"},
           {"mode in capitals", {"--cpu-device-mode=Grouped"}, 2, "--cpu-device-mode"},
           {"empty mode", {"--cpu-device-mode="}, 2, "--cpu-device-mode"},
           {"bad group", {"--group-by=core"}, 2, "--group-by"},
           {"bad group prints usage", {"--group-by", "core"}, 2, "Usage: dracpu"},
           {"level is a word", {"--v=high"}, 2, "--v"},
           {"level is a float", {"-v=1.5"}, 2, "--v"},
           {"level is empty", {"--v="}, 2, "--v"},
           {"level too large", {"--v=99999999999"}, 2, "--v"},
           {"bad boolean", {"--expose-pcie-roots=maybe"}, 2, "\"maybe\""},
           {"empty boolean", {"--expose-pcie-roots="}, 2, "neither"},
           {"boolean with a word", {"--expose-pcie-roots", "false"}, 2, "\"false\" is not known"},
           {"unknown subcommand", {"run"}, 2, "devices, gatherinfo, health"},
           {"empty subcommand", {""}, 2, "devices, gatherinfo, health"},
           {"after two dashes", {"--", "--v=1"}, 2, "devices, gatherinfo, health"},
           {"flags with a subcommand", {"--v=4", "introspect", "metrics"}, 1, "--v"},
           {"flags with health", {"--config=x", "health", "live"}, 1, "--config"},
           {"introspect alone", {"introspect"}, 1, "metrics"},
           {"introspect something else",
            {"introspect", "config"},
            1,
            "\"config\" is not known; there is: metrics"},
           {"introspect too much", {"introspect", "metrics", "all"}, 2, "\"all\""},
           {"introspect flag", {"introspect", "--all"}, 2, "--all"},
           {"config alone", {"config"}, 2, "config wants one word"},
           {"config check alone", {"config", "check"}, 2, "wants a FILE"},
           {"config check two files", {"config", "check", "a", "b"}, 2, "\"b\" is too much"},
           {"config check empty overlay", {"config", "check", "a", "--sysfs-overlay="}, 2, "no value given"},
           {"config show overlay",
            {"config", "show", "--sysfs-overlay=o"},
            2,
            "takes no flag --sysfs-overlay"},
           {"config migrate two files", {"config", "migrate", "a", "b"}, 2, "takes one FILE"},
           {"config migrate two ways", {"config", "migrate", "a", "--config=b"}, 2, "not both"},
           {"config migrate bad flag", {"config", "migrate", "a", "--nonsense"}, 2, "--nonsense"},
           {"config migrate bad mode", {"config", "migrate", "--group-by=core"}, 2, "--group-by"},
           {"log level octal", {"log-level", "010"}, 2, "\"010\""},
           {"log level too high", {"log-level", "11"}, 2, "from 0 to 10"},
           {"health alone", {"health"}, 2, "live or ready"},
           {"health other", {"health", "well"}, 2, "live or ready"},
           {"health too much", {"health", "live", "ready"}, 2, "live or ready"},
           {"health timeout", {"health", "live", "--timeout=0"}, 2, "--timeout"},
           {"health timeout word", {"health", "live", "--timeout", "soon"}, 2, "\"soon\""},
           {"health flag", {"health", "live", "--verbose"}, 2, "--verbose"},
           {"gatherinfo both", {"gatherinfo", "--stdout", "--output-dir=/tmp"}, 2, "exclude each other"},
           {"gatherinfo too much", {"gatherinfo", "now"}, 2, "\"now\""},
           {"gatherinfo flag", {"gatherinfo", "--all"}, 2, "--all"},
           {"gatherinfo boolean", {"gatherinfo", "--stdout=x"}, 2, "\"x\""},
       }) {
    SCOPED_TRACE(c.about);
    const CommandLine got = parse_command_line(c.args);
    ASSERT_EQ(got.kind, Kind::kFailed);
    EXPECT_EQ(got.status, c.status) << got.text;
    EXPECT_THAT(got.text, StartsWith("dracpu: "));
    EXPECT_THAT(got.text, HasSubstr(c.told));
    EXPECT_THAT(got.text, Not(HasSubstr("secret")));
    EXPECT_THAT(got.text, EndsWith("\n"));
  }
}

TEST(CommandLine, ADashIsStandardInput) {
  for (const char* action : {"check", "migrate"}) {
    const CommandLine got = parse_command_line({"config", action, "-"});
    EXPECT_EQ(got.kind, Kind::kConfig);
    EXPECT_EQ(got.flags.config, "/dev/stdin");
  }
  const CommandLine named = parse_command_line({"config", "migrate", "c.yaml", "--v=4"});
  EXPECT_EQ(named.flags.config, "c.yaml");
  EXPECT_EQ(named.flags.verbosity, 4);
}

TEST(CommandLine, HelpReadsWell) {
  for (const Args& args : {Args{"--help"}, Args{"-h"}, Args{"-help"}, Args{"--v=3", "-h"}}) {
    const CommandLine got = parse_command_line(args);
    ASSERT_EQ(got.kind, Kind::kPrint);
    for (const char* word :
         {"--config", "--bind-address", ":8080", "/var/lib/kubelet", "Deprecated", "--group-by", "numanode",
          "introspect metrics", "gatherinfo", "health live|ready"}) {
      EXPECT_THAT(got.text, HasSubstr(word));
    }
    EXPECT_THAT(got.text, Not(HasSubstr("stderrthreshold"))) << "flags without a meaning are not shown";
    std::size_t begin = 0;
    while (begin < got.text.size()) {
      const std::size_t end = got.text.find('\n', begin);
      EXPECT_LE(end - begin, 110U) << got.text.substr(begin, end - begin);
      begin = end + 1;
    }
  }
  for (const Args& args : {Args{"health", "-h"}, Args{"health", "live", "--help"}, Args{"introspect", "-h"},
                           Args{"introspect", "metrics", "-h"}, Args{"gatherinfo", "-h"}}) {
    const CommandLine got = parse_command_line(args);
    EXPECT_EQ(got.kind, Kind::kPrint) << args[0];
    EXPECT_THAT(got.text, StartsWith("Usage: dracpu " + args[0]));
  }
  EXPECT_THAT(parse_command_line({"--version"}).text, StartsWith("dracpu "));
  EXPECT_EQ(parse_command_line({"--version=false"}).kind, Kind::kDaemon);
}

TEST(CommandLine, Subcommands) {
  const CommandLine health =
      parse_command_line({"health", "ready", "--address", "unix:/run/x", "-timeout=7"});
  ASSERT_EQ(health.kind, Kind::kHealth) << health.text;
  EXPECT_EQ(health.health_path, "/readyz");
  EXPECT_EQ(health.address, "unix:/run/x");
  EXPECT_EQ(health.timeout_seconds, 7);
  EXPECT_EQ(parse_command_line({"health", "live"}).health_path, "/livez");
  EXPECT_EQ(parse_command_line({"health", "live"}).address, "") << "the control socket";
  EXPECT_EQ(parse_command_line({"introspect", "metrics"}).kind, Kind::kIntrospectMetrics);
  EXPECT_FALSE(parse_command_line({"introspect", "metrics"}).include_memory);
  EXPECT_TRUE(parse_command_line({"introspect", "metrics", "--include-memory"}).include_memory);
  const CommandLine gather = parse_command_line({"gatherinfo", "-output-dir", "/tmp"});
  ASSERT_EQ(gather.kind, Kind::kGatherInfo);
  EXPECT_EQ(gather.output_dir, "/tmp");
  EXPECT_TRUE(parse_command_line({"gatherinfo", "--stdout"}).to_stdout);
}

TEST(Introspect, MetricsAsJson) {
  EXPECT_EQ(metrics_as_json({}), "[]\n");
  EXPECT_EQ(metrics_as_json({{"a", observe::MetricKind::kGauge, "Help \"a\".", {}},
                             {"b_total", observe::MetricKind::kCounter, "B.", {"x", "y"}}}),
            "[\n  {\n    \"name\": \"a\",\n    \"type\": \"gauge\",\n    \"stability\": \"ALPHA\",\n"
            "    \"help\": \"Help \\\"a\\\".\",\n    \"labels\": []\n  },\n"
            "  {\n    \"name\": \"b_total\",\n    \"type\": \"counter\",\n    \"stability\": \"ALPHA\",\n"
            "    \"help\": \"B.\",\n    \"labels\": [\n      \"x\",\n      \"y\"\n    ]\n  }\n]\n");
}

int run_with(std::vector<std::string> words, DaemonMain daemon) {
  std::vector<char*> argv;
  argv.reserve(words.size());
  for (std::string& word : words) argv.push_back(word.data());
  return run(static_cast<int>(argv.size()), argv.data(), daemon);
}

int never(const config::Config&) {
  ADD_FAILURE() << "the daemon must not start";
  return 99;
}

TEST(Run, ExitCodes) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  EXPECT_EQ(
      run_with({"dracpu", "--v=1", "--group-by=socket"},
               [](const config::Config& c) { return c.cpu.group_by == config::GroupBy::kSocket ? 7 : 8; }),
      7);
  EXPECT_EQ(run_with({"dracpu", "--group-by=core"}, never), 2);
  EXPECT_EQ(run_with({"dracpu", "--vmodule=x"}, never), 2);
  EXPECT_EQ(run_with({"dracpu", "--config=/nowhere/c.yaml"}, never), 1);
  EXPECT_EQ(run_with({"dracpu", "--reserved-cpus=x"}, never), 1);
  EXPECT_EQ(run_with({"dracpu", "--kubelet-root-dir=relative"}, never), 1);
  EXPECT_EQ(run_with({"dracpu", "what"}, never), 2);
  EXPECT_EQ(run_with({"dracpu", "--help"}, never), 0);
  EXPECT_EQ(run_with({"dracpu", "introspect", "metrics"}, never), 0);
  EXPECT_EQ(run_with({"dracpu", "health", "live", "--address=unix:/nowhere/s"}, never), 1);
  EXPECT_EQ(run_with({"dracpu", "health", "live", "--address=x"}, never), 2);
  EXPECT_EQ(run_with({"/usr/bin/dracpu-gatherinfo", "--stdout", "--output-dir=/x"}, never), 2);
  const std::string out = testing::internal::GetCapturedStdout();
  const std::string err = testing::internal::GetCapturedStderr();
  EXPECT_THAT(out, HasSubstr("\"name\": \"dra_cpu_allocated_cpus\""));
  EXPECT_THAT(err, HasSubstr("\"Flag is deprecated\" setting=\"--group-by\""));
  EXPECT_THAT(err, HasSubstr("\"Resolved configuration\""));
  EXPECT_THAT(err, HasSubstr("\"Configuration refused\" err=\"command line: --reserved-cpus"));
  EXPECT_THAT(err, HasSubstr("exclude each other"));
}

}  // namespace
}  // namespace dracpu::cli

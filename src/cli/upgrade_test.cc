// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/upgrade.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cli/process.h"
#include "data/corpus.h"
#include "kube/fake_api_server.h"

namespace dracpu::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Kind = CommandLine::Kind;
using Args = std::vector<std::string>;

TEST(UpgradeLine, Flags) {
  const CommandLine check = parse_command_line(
      {"upgrade", "check", "--kubeconfig=k", "--config", "c", "-values=v", "--node", "w", "-o", "json"});
  ASSERT_EQ(check.kind, Kind::kUpgrade) << check.text;
  EXPECT_EQ(check.action, "check");
  EXPECT_EQ(check.kubeconfig + check.config_file + check.values_file + check.node_name + check.output,
            "kcvwjson");
  const CommandLine identity = parse_command_line({"upgrade", "identity", "--to=n", "--apply"});
  ASSERT_EQ(identity.kind, Kind::kUpgrade) << identity.text;
  EXPECT_EQ(identity.action, "identity");
  EXPECT_EQ(identity.from_name, "dra.cpu");
  EXPECT_EQ(identity.to_name, "n");
  EXPECT_TRUE(identity.apply);
  EXPECT_FALSE(parse_command_line({"upgrade", "identity", "--to=n", "--from=o", "--apply=false"}).apply);
  for (const Args& args :
       {Args{"upgrade", "-h"}, Args{"upgrade", "check", "--help"}, Args{"upgrade", "identity", "-h"}})
    EXPECT_THAT(parse_command_line(args).text, StartsWith("Usage: dracpu upgrade check"));
}

TEST(UpgradeLine, Refused) {
  struct Case {
    Args args;
    const char* told;
  };
  for (const Case& c : std::initializer_list<Case>{
           {{"upgrade"}, "upgrade wants one word, check or identity"},
           {{"upgrade", "now"}, "upgrade wants one word, check or identity"},
           {{"upgrade", "check", "now"}, "\"now\" is too much"},
           {{"upgrade", "check", "--apply"}, "--apply"},
           {{"upgrade", "check", "-o", "yaml"}, "\"yaml\" is none of text, json"},
           {{"upgrade", "check", "--node="}, "flag --node: no value given"},
           {{"upgrade", "identity"}, "wants --to NAME"},
           {{"upgrade", "identity", "--to=a", "--values=v"}, "--values"},
           {{"upgrade", "identity", "--to=a", "--apply=x"}, "\"x\" is neither true nor false"},
       }) {
    const CommandLine got = parse_command_line(c.args);
    ASSERT_EQ(got.kind, Kind::kFailed) << c.told;
    EXPECT_EQ(got.status, kBadInput);
    EXPECT_THAT(got.text, HasSubstr(c.told));
  }
}

TEST(ReadDriverFlags, AsTheDriverWould) {
  const Result<config::Flags> flags =
      read_driver_flags({"--v=4", "-group-by", "socket", "--config=/etc/c.yaml", "--logtostderr"});
  ASSERT_TRUE(flags.ok()) << flags.error().text;
  EXPECT_EQ(flags->group_by, "socket");
  EXPECT_EQ(flags->config, "/etc/c.yaml");
  EXPECT_TRUE(read_driver_flags({}).ok());
  for (const Args& words :
       {Args{"--unknown"}, Args{"health", "live"}, Args{"--version"}, Args{"--group-by=core"}}) {
    const Result<config::Flags> got = read_driver_flags(words);
    ASSERT_FALSE(got.ok()) << words[0];
    EXPECT_EQ(got.error().code, Errc::kInvalidInput);
    EXPECT_EQ(got.error().text.find('\n'), std::string::npos) << "the usage is left out";
  }
}

class UpgradeRun : public ::testing::Test {
 protected:
  UpgradeRun() {
    write("k", fmt::format(
                   "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
                   "contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
                   "clusters: [{{name: c, cluster: {{server: \"{}\"}}}}]\nusers: [{{name: u, user: {{}}}}]\n",
                   server_.url()));
    server_.set_hook([](const kube::FakeApiServer::Seen& seen) -> std::optional<kube::FakeApiServer::Fault> {
      if (seen.target.starts_with("/version")) return std::nullopt;
      kube::FakeApiServer::Fault out;
      out.status = 200;
      out.body = R"({"items":[],"versions":[{"version":"v1"}]})";
      return out;
    });
  }
  std::string path(const std::string& name) const { return (dir_.path() / name).string(); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  struct Outcome {
    int status;
    std::string out;
    std::string err;
  };
  static Outcome run(Args args) {
    args.insert(args.begin(), "upgrade");
    const CommandLine line = parse_command_line(args);
    EXPECT_EQ(line.kind, Kind::kUpgrade) << line.text;
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int status = run_upgrade(line);
    return {status, ::testing::internal::GetCapturedStdout(), ::testing::internal::GetCapturedStderr()};
  }

  test::TempDir dir_;
  kube::FakeApiServer server_;
};

TEST_F(UpgradeRun, CheckEndsWithWhatItFound) {
  Outcome got = run({"check", "--kubeconfig", path("k")});
  EXPECT_EQ(got.status, kOk) << got.out << got.err;
  EXPECT_THAT(got.out, HasSubstr("Nothing found that breaks the move"));
  write("v", "extraArgs: [a]\n");
  got = run({"check", "--kubeconfig", path("k"), "--values", path("v"), "-o", "json"});
  EXPECT_EQ(got.status, kRefused);
  EXPECT_THAT(got.out, HasSubstr(R"("id":"chart-value-unknown","object":"file )"));
}

TEST_F(UpgradeRun, BadInput) {
  write("list", "- a\n");
  write("two", "a: 1\na: 2\n");
  const std::pair<Args, const char*> cases[] = {
      {{"check", "--kubeconfig", path("none")}, "none"},
      {{"check", "--kubeconfig", path("k"), "--values", path("list")},
       "must be a mapping of keys to values, not"},
      {{"check", "--kubeconfig", path("k"), "--values", path("two")}, "line 2"},
      {{"check", "--kubeconfig", path("k"), "--config", path("none")}, "none"},
      {{"identity", "--kubeconfig", path("k"), "--to", "dra.cpu"}, "there is nothing to move"},
      {{"identity", "--kubeconfig", path("k"), "--to", "No Name"}, "--to"},
  };
  for (const auto& [args, told] : cases) {
    const Outcome got = run(args);
    EXPECT_EQ(got.status, kBadInput) << told;
    EXPECT_THAT(got.err, StartsWith("dracpu: "));
    EXPECT_THAT(got.err, HasSubstr(told));
  }
  server_.stop();
  EXPECT_THAT(run({"check", "--kubeconfig", path("k")}).err,
              HasSubstr("the right address, and reachable from here?"));
}

TEST_F(UpgradeRun, IdentityOfAnEmptyCluster) {
  const Outcome plan = run({"identity", "--kubeconfig", path("k"), "--to=cpu.example.com"});
  EXPECT_EQ(plan.status, kOk) << plan.out << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("This is the plan; nothing was changed."));
  const Outcome applied =
      run({"identity", "--kubeconfig", path("k"), "--to=cpu.example.com", "--apply", "-o", "json"});
  EXPECT_EQ(applied.status, kOk);
  EXPECT_THAT(applied.out, HasSubstr(R"("applied":true,"refused":[],"stillOld":[],"remove":[])"));
  EXPECT_EQ(server_.writes(), 0U);
}

}  // namespace
}  // namespace dracpu::cli

// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/upgrade.h"

#include <memory>
#include <utility>

#include "base/file.h"
#include "cli/process.h"
#include "config/yaml.h"
#include "kube/credentials.h"
#include "kube/http_client.h"
#include "upgrade/identity.h"
#include "upgrade/reader.h"
#include "upgrade/report.h"
#include "upgrade/rules.h"

namespace dracpu::cli {
namespace {

constexpr std::size_t kMaxValues = 50'000;  // of a values file

// The root of a file that has to be a mapping, or empty.
Result<config::YamlNode> read_mapping(std::string_view text, std::string_view what, const std::string& name) {
  Result<config::YamlNode> root = config::parse_yaml(text, kMaxValues);
  const std::string step = fmt::format("{} \"{}\"", what, name);
  if (!root.ok()) return std::move(root).error().while_doing(step);
  const config::YamlType type = type_of(*root);
  if (type != config::YamlType::kMapping && type != config::YamlType::kNull) {
    return make_error(Errc::kInvalidInput, "{}: {}: must be a mapping of keys to values, not {}", step,
                      to_string(root->at), describe(type));
  }
  return root;
}

Result<upgrade::Given> read_given(const CommandLine& line) {
  upgrade::Given out;
  if (!line.config_file.empty()) {
    Result<config::FileText> file = config::read_config_file(line.config_file);
    if (!file.ok()) return std::move(file).error();
    if (const auto root = read_mapping(file->text, "config file", file->name); !root.ok())
      return root.error();
    out.config = upgrade::StatedConfig{"file " + line.config_file, {}, *std::move(file)};
  }
  if (!line.values_file.empty()) {
    const Result<std::string> text = read_file(line.values_file);
    if (!text.ok()) return Error(text.error()).while_doing("flag --values");
    Result<config::YamlNode> root = read_mapping(*text, "values file", line.values_file);
    if (!root.ok()) return std::move(root).error();
    out.values = upgrade::ValuesFile{line.values_file, *std::move(root)};
  }
  return out;
}

Result<kube::ClientConfig> client_config(const CommandLine& line) {
  std::string file = line.kubeconfig;
  if (file.empty()) {
    file = kube::process_environment("KUBECONFIG");
    if (file.find(':') != std::string::npos) {
      return make_error(Errc::kInvalidInput,
                        "$KUBECONFIG names several files (\"{}\"); give one with --kubeconfig, for instance "
                        "the output of: kubectl config view --minify --flatten --raw",
                        file);
    }
  }
  Result<kube::ClientConfig> out = kube::load_client_config(file);
  if (out.ok()) return out;
  Error error = std::move(out).error();
  if (file.empty()) error.text += "; give a kubeconfig with --kubeconfig FILE";
  if (error.code == Errc::kUnsupported)
    error.text += "; or go through kubectl proxy, see docs/user/upgrade-check.md";
  return error;
}

struct Cluster {
  kube::Endpoint endpoint;
  std::unique_ptr<kube::HttpClient> client;

  // An error of reading it, for whoever gave the address.
  Error explain(Error error) const {
    if (error.code == Errc::kUnavailable)
      error.text += fmt::format("; is {} port {} the right address, and reachable from here?", endpoint.host,
                                endpoint.port);
    return error;
  }
};

Result<Cluster> connect(const CommandLine& line) {
  Result<kube::ClientConfig> config = client_config(line);
  if (!config.ok()) return std::move(config).error();
  Cluster out;
  out.endpoint = config->endpoint;
  Result<std::unique_ptr<kube::HttpClient>> client = kube::HttpClient::create(*std::move(config));
  if (!client.ok()) return std::move(client).error();
  out.client = *std::move(client);
  return out;
}

upgrade::ReadOptions options_of(const CommandLine& line) {
  upgrade::ReadOptions out;
  out.node = line.node_name;
  out.read_flags = read_driver_flags;
  return out;
}

int run_check(const CommandLine& line) {
  const Result<upgrade::Given> given = read_given(line);
  if (!given.ok()) return bad_input(given.error());
  const Result<Cluster> cluster = connect(line);
  if (!cluster.ok()) return bad_input(cluster.error());
  Result<upgrade::Facts> facts = upgrade::read_cluster(*cluster->client, *given, options_of(line));
  if (!facts.ok()) return bad_input(cluster->explain(std::move(facts).error()));
  const upgrade::Report report = upgrade::run_rules(*given, *facts);
  return print_result(line.output == "json" ? upgrade::to_json(report) : upgrade::to_text(report),
                      report.has_errors() ? kRefused : kOk);
}

int run_identity(const CommandLine& line) {
  const upgrade::Move move{line.from_name, line.to_name};
  if (const Status s = upgrade::check_move(move); !s.ok()) return bad_input(s.error());
  const Result<Cluster> cluster = connect(line);
  if (!cluster.ok()) return bad_input(cluster.error());
  const upgrade::ReadOptions options = options_of(line);
  Result<upgrade::IdentityFacts> read = upgrade::read_identity(*cluster->client, move, options);
  if (!read.ok()) return bad_input(cluster->explain(std::move(read).error()));
  upgrade::IdentityPlan plan = upgrade::plan_identity(*read, move);
  plan.is_asked = line.apply;
  if (line.apply && !plan.is_refused()) upgrade::carry_out(*cluster->client, plan, options.limit);
  int status = plan.has_failed() ? kFailed : kOk;
  if (plan.is_refused()) status = kRefused;
  return print_result(line.output == "json" ? upgrade::to_json(plan) : upgrade::to_text(plan), status);
}

}  // namespace

Result<config::Flags> read_driver_flags(const std::vector<std::string>& words) {
  CommandLine line = parse_command_line(words);
  if (line.kind == CommandLine::Kind::kDaemon) return std::move(line.flags);
  if (line.kind != CommandLine::Kind::kFailed)
    return make_error(Errc::kInvalidInput, "its command line starts no driver");
  const std::string why = line.text.substr(0, line.text.find('\n'));
  return make_error(Errc::kInvalidInput, "its command line is not this driver's: {}",
                    why.starts_with("dracpu: ") ? why.substr(8) : why);
}

int run_upgrade(const CommandLine& line) {
  return line.action == "identity" ? run_identity(line) : run_check(line);
}

}  // namespace dracpu::cli

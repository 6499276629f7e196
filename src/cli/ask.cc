// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/ask.h"

#include <chrono>
#include <filesystem>
#include <optional>

#include "cli/process.h"
#include "config/load.h"
#include "config/migrate.h"
#include "config/overlay.h"
#include "config/reference.h"
#include "observe/http_get.h"

namespace dracpu::cli {
namespace {

constexpr std::chrono::seconds kAnswerLimit{3};

std::string address_of(const CommandLine& line) {
  if (!line.address.empty()) return line.address;
  const std::string socket = environment().control_socket;
  return "unix:" + (socket.empty() ? std::string(config::kControlSocket) : socket);
}

int no_answer(const Error& error) {
  complain(error.text);
  return error.code == Errc::kInvalidInput ? kBadInput : kFailed;
}

int show_answer(const Result<observe::HttpReply>& reply) {
  if (!reply.ok()) return no_answer(reply.error());
  if (reply->status == 200) return print_result(reply->body, kOk);
  complain(reply->body);
  return kFailed;
}

int check(const CommandLine& line) {
  const Result<config::Loaded> loaded = config::load(line.flags, {});
  if (!loaded.ok()) return bad_input(loaded.error());
  for (const config::Warning& w : loaded->warnings)
    complain(fmt::format("warning: {}: {}; {}", w.setting, w.event, w.advice));
  std::string said =
      fmt::format("{}: ok, form {}\n", *line.flags.config, config::name_of(loaded->config.format));
  const std::filesystem::path overlay =
      line.overlay.empty() ? loaded->config.node.sysfs_overlay : std::filesystem::path(line.overlay);
  if (overlay.empty()) return print_result(said, kOk);
  const Result<config::OverlayFiles> files = config::read_overlay(overlay);
  if (files.ok()) {
    said +=
        fmt::format("{}: ok, {} file{}\n", overlay.string(), files->size(), files->size() == 1 ? "" : "s");
  } else if (files.error().code == Errc::kNotFound && line.overlay.empty()) {
    // The driver's file system has it, this one need not.
    complain(
        fmt::format("warning: the overlay \"{}\" is not here and was not checked; name a copy of it with "
                    "--sysfs-overlay",
                    overlay.string()));
  } else {
    return bad_input(files.error());
  }
  return print_result(said, kOk);
}

int migrate(const CommandLine& line) {
  std::optional<config::FileText> file;
  if (line.flags.config) {
    Result<config::FileText> read = config::read_config_file(*line.flags.config);
    if (!read.ok()) return bad_input(read.error());
    file = *std::move(read);
  }
  const Result<config::Migrated> got = config::migrate(line.flags, file ? &*file : nullptr);
  if (!got.ok()) return bad_input(got.error());
  for (const std::string& note : got->notes) complain(note);
  return print_result(got->text, kOk);
}

}  // namespace

int run_health(const CommandLine& line) {
  const Result<observe::HttpReply> reply =
      observe::http_get(address_of(line), line.health_path, std::chrono::seconds(line.timeout_seconds));
  if (!reply) return no_answer(reply.error());
  put(stdout, reply->body);
  return reply->status == 200 ? kOk : kRefused;
}

int run_config(const CommandLine& line) {
  if (line.action == "check") return check(line);
  if (line.action == "migrate") return migrate(line);
  if (line.action == "schema") return print_result(config::json_schema(), kOk);
  if (line.action == "reference") return print_result(config::reference_table(), kOk);
  if (!line.defaults) return show_answer(observe::http_get(address_of(line), "/config", kAnswerLimit));
  config::Config usual;
  usual.format = config::Format::kV1Beta1;
  return print_result(config::to_yaml(usual), kOk);
}

int run_log_level(const CommandLine& line) {
  const std::string address = address_of(line);
  return show_answer(
      line.log_level
          ? observe::http_put(address, fmt::format("/loglevel?v={}", *line.log_level), kAnswerLimit)
          : observe::http_get(address, "/loglevel", kAnswerLimit));
}

}  // namespace dracpu::cli

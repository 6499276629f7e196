// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// dracpu-chaos: the fault suite (issue: nothing lost, never two owners).
//
// Exit status: 0 no violation, 1 at least one (with its seed and what led to it), 2 a command line that does
// not parse, or this machine cannot run it.

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "churn.h"
#include "duel.h"
#include "report.h"
#include "schedules.h"

namespace dracpu::chaos {
namespace {

struct Options {
  std::filesystem::path driver;
  std::string parts = "ABC";
  std::size_t schedules = 10'000;
  std::size_t kills = 300;
  std::size_t rounds = 1'000;
  std::uint64_t seed = 0;
};

constexpr const char* kUsage =
    "usage: dracpu-chaos [--driver PATH] [--parts ABC] [--schedules N] [--kills N] [--rounds N] [--seed N]\n"
    "  A  schedules in this process: crashes and power cuts between effects, failing disk   --schedules "
    "(10000)\n"
    "  B  the real driver, killed among neighbours that fail                                --kills (300)\n"
    "  C  two drivers, one killed, the other takes over                                     --rounds (1000)\n"
    "  --driver PATH  the dracpu binary, for B and C\n"
    "  --seed N       of everything that is left to chance; part A is the same again with it\n";

void say(const std::string& text) {
  (void)std::fputs(text.c_str(), stdout);
  (void)std::fflush(stdout);
}

std::optional<Options> parse(int argc, char** argv) {
  Options out;
  out.seed =
      parse_number<std::uint64_t>(std::to_string(std::chrono::system_clock::now().time_since_epoch().count()))
          .value_or(1) %
      1'000'000'007U;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (i + 1 == argc) return std::nullopt;
    const std::string_view value = argv[++i];
    const std::optional<std::uint64_t> number = parse_number<std::uint64_t>(value);
    if (arg == "--driver") {
      out.driver = value;
    } else if (arg == "--parts") {
      out.parts = value;
    } else if (arg == "--schedules" && number) {
      out.schedules = *number;
    } else if (arg == "--kills" && number) {
      out.kills = *number;
    } else if (arg == "--rounds" && number) {
      out.rounds = *number;
    } else if (arg == "--seed" && number) {
      out.seed = *number;
    } else {
      return std::nullopt;
    }
  }
  return out;
}

int run(const Options& options) {
  struct Part {
    char name;
    std::string title;
    Status (*work)(const Options&, Report&);
  };
  const Part parts[] = {
      {'A', "A  crash schedules in this process",
       [](const Options& o, Report& r) { return run_schedules(o.schedules, o.seed, r); }},
      {'B', "B  real driver among failing neighbours",
       [](const Options& o, Report& r) {
         return run_churn({o.driver, o.kills, o.seed}, r);
       }},
      {'C', "C  two drivers",
       [](const Options& o, Report& r) {
         return run_duels({o.driver, o.rounds, o.seed}, r);
       }},
  };
  say(fmt::format("seed {}\n", options.seed));
  std::size_t violations = 0;
  for (const Part& part : parts) {
    if (options.parts.find(part.name) == std::string::npos) continue;
    Report report;
    const auto begun = std::chrono::steady_clock::now();
    if (Status s = part.work(options, report); !s.ok()) {
      fmt::print(stderr, "dracpu-chaos: part {} cannot run: {}\n", part.name, s.error().text);
      return 2;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    for (const Violation& v : report.list()) {
      say(fmt::format("VIOLATION in part {}, seed {}: {}\n", v.part, v.seed, v.what));
      for (const std::string& line : v.trail) say(fmt::format("    {}\n", line));
    }
    say(report.table(fmt::format("{}, {:.0f} s", part.title, took.count()), options.seed));
    violations += report.violations();
  }
  say(fmt::format("violations {} seed {}\n", violations, options.seed));
  return violations == 0 ? 0 : 1;
}

int main_of(int argc, char** argv) {
  const std::optional<Options> options = parse(argc, argv);
  if (!options) {
    fmt::print(stderr, "{}", kUsage);
    return 2;
  }
  const bool needs_driver = options->parts.find_first_of("BC") != std::string::npos;
  if (needs_driver && ::access(options->driver.c_str(), X_OK) != 0) {
    fmt::print(stderr, "dracpu-chaos: no driver binary at \"{}\"\n{}", options->driver.string(), kUsage);
    return 2;
  }
  (void)std::signal(SIGPIPE, SIG_IGN);
  return run(*options);
}

}  // namespace
}  // namespace dracpu::chaos

int main(int argc, char** argv) { return dracpu::chaos::main_of(argc, argv); }

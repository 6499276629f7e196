// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "observe/log.h"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <memory>
#include <optional>
#include <vector>

// The one file that sees spdlog: it takes finished lines to standard error, the klog form is ours.
#undef SPDLOG_FMT_EXTERNAL  // may stand on the command line with a value, and the header defines it without
#define SPDLOG_FMT_EXTERNAL
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "base/escape.h"
#include "base/mutex.h"
#include "base/strings.h"

namespace dracpu::observe {
namespace {

enum class Severity : char { kInfo = 'I', kWarning = 'W', kError = 'E' };

std::atomic<int> g_level{0};
std::atomic<int> g_module_max{-1};  // the highest level of any module rule
std::atomic<LogFormat> g_format{LogFormat::kText};

struct ModuleRule {
  std::string pattern;
  int level = 0;
};

struct Modules {
  Mutex mutex;
  std::vector<ModuleRule> rules DRACPU_GUARDED_BY(mutex);
};

Modules& modules() {
  static Modules instance;
  return instance;
}

// The shell's * and ? only, as klog's --vmodule.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// "agent.cc" is the module "agent", as klog drops ".go".
std::string_view module_of(std::string_view path) {
  const std::string_view file = base_name(path);
  return file.substr(0, file.find('.'));
}

bool module_enabled(int level, std::string_view path) {
  const std::string_view module = module_of(path);
  Modules& m = modules();
  const Locked lock(m.mutex);
  for (const ModuleRule& rule : m.rules) {
    if (matches(rule.pattern, module)) return level <= rule.level;
  }
  return false;
}

spdlog::logger& line_writer() {
  static spdlog::logger writer = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    spdlog::logger made("dracpu", std::move(sink));
    made.set_pattern("%v");
    made.set_level(spdlog::level::trace);
    made.set_error_handler([](const std::string&) {});  // nowhere left to say it
    return made;
  }();
  return writer;
}

pid_t thread_id() {
  thread_local const pid_t id = ::gettid();
  return id;
}

void append_text(std::string& out, const Field& field) {
  out += ' ';
  append_key(out, field.key);
  out += '=';
  if (field.quoted) {
    append_quoted(out, field.value);
  } else {
    out += field.value;
  }
}

void append_json(std::string& out, const Field& field) {
  out += ',';
  append_json_string(out, field.key);
  out += ':';
  // "inf" and "nan" are no JSON numbers; "true" and "false" have neither letter pair.
  const bool bare = !field.quoted && !field.value.ends_with("inf") && !field.value.ends_with("nan");
  if (bare) {
    out += field.value;
  } else {
    append_json_string(out, field.value);
  }
}

std::string text_line(Severity severity, const ::timeval& now, std::string_view event, const Error* error,
                      Fields fields, const std::source_location& at) {
  std::tm local{};
  ::localtime_r(&now.tv_sec, &local);
  std::string out =
      fmt::format("{}{:02}{:02} {:02}:{:02}:{:02}.{:06} {:7} {}:{}] ", static_cast<char>(severity),
                  local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec, now.tv_usec,
                  thread_id(), base_name(at.file_name()), at.line());
  append_quoted(out, event);
  if (error != nullptr) append_text(out, Field("err", error->text));
  for (const Field& field : fields) append_text(out, field);
  return out;
}

std::string json_line(Severity severity, int level, const ::timeval& now, std::string_view event,
                      const Error* error, Fields fields, const std::source_location& at) {
  std::string out = fmt::format("{{\"ts\":{}.{:06},\"caller\":", now.tv_sec, now.tv_usec);
  append_json_string(out, fmt::format("{}:{}", base_name(at.file_name()), at.line()));
  out += ",\"level\":";
  switch (severity) {
    case Severity::kInfo:
      out += fmt::format("\"info\",\"v\":{}", level);
      break;
    case Severity::kWarning:
      out += "\"warning\"";
      break;
    case Severity::kError:
      out += "\"error\"";
      break;
  }
  out += ",\"msg\":";
  append_json_string(out, event);
  if (error != nullptr) append_json(out, Field("err", error->text));
  for (const Field& field : fields) append_json(out, field);
  out += '}';
  return out;
}

void write_line(Severity severity, int level, std::string_view event, const Error* error, Fields fields,
                const std::source_location& at) noexcept {
  try {
    ::timeval now{};
    ::gettimeofday(&now, nullptr);
    const std::string line = g_format.load(std::memory_order_relaxed) == LogFormat::kJson
                                 ? json_line(severity, level, now, event, error, fields, at)
                                 : text_line(severity, now, event, error, fields, at);
    line_writer().log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
  } catch (...) {  // out of memory: a lost line is better than a lost process
  }
}

}  // namespace

void set_log_level(int level) { g_level.store(level, std::memory_order_relaxed); }
int log_level() { return g_level.load(std::memory_order_relaxed); }
void set_log_format(LogFormat format) { g_format.store(format, std::memory_order_relaxed); }

Status set_log_modules(std::string_view rules) {
  std::vector<ModuleRule> parsed;
  int highest = -1;
  for (const std::string_view item : split(rules, ',')) {
    if (item.empty()) continue;
    const std::size_t equals = item.find('=');
    const std::optional<int> level =
        equals == std::string_view::npos ? std::nullopt : parse_number<int>(item.substr(equals + 1));
    if (equals == 0 || !level || *level < 0) {
      return make_error(Errc::kInvalidInput,
                        "module rule \"{}\" is not of the form NAME=LEVEL, for example \"ledger=6\"", item);
    }
    parsed.push_back({std::string(item.substr(0, equals)), *level});
    highest = std::max(highest, *level);
  }
  Modules& m = modules();
  {
    const Locked lock(m.mutex);
    m.rules = std::move(parsed);
  }
  g_module_max.store(highest, std::memory_order_relaxed);
  return ok_status();
}

bool log_enabled(int level) {
  return level <= log_level() || level <= g_module_max.load(std::memory_order_relaxed);
}

void log_info(int level, std::string_view event, Fields fields, std::source_location at) {
  if (!log_enabled(level)) return;
  if (level > log_level() && !module_enabled(level, at.file_name())) return;
  write_line(Severity::kInfo, level, event, nullptr, fields, at);
}

void log_warning(std::string_view event, Fields fields, std::source_location at) {
  write_line(Severity::kWarning, 0, event, nullptr, fields, at);
}

void log_error(std::string_view event, const Error& error, Fields fields, std::source_location at) {
  write_line(Severity::kError, 0, event, &error, fields, at);
}

std::string new_op_id() { return random_hex(4); }

}  // namespace dracpu::observe

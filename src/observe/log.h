// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Logging: one event, one line, with fields.
//
// A line is an event name in plain words plus key-value fields; nothing is glued into the sentence. Every
// line of one operation carries the same opID (eight lower-case hex digits). Text form is klog's, on standard
// error:
//   I1202 05:35:41.123456    1234 agent.cc:12] "Claim prepared" opID="7f3a91c2" claim="ns/name" cpus="2-5"
// Levels of info lines: 0 always shown, 2 decisions and container life, 4 allocation detail, 6 debug
// (spec driver-behaviours section 16). Warnings and errors are always shown. Never throws.
// Threads Any. The level and the format may be changed while others log.

#ifndef DRACPU_OBSERVE_LOG_H_
#define DRACPU_OBSERVE_LOG_H_

#include <fmt/format.h>

#include <initializer_list>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace dracpu::observe {

// A field's value is turned to text where the line is written; numbers print bare, texts are quoted.
struct Field {
  std::string_view key;
  std::string value;
  bool quoted = true;

  Field(std::string_view k, std::string_view v) : key(k), value(v) {}
  Field(std::string_view k, const char* v) : key(k), value(v) {}
  Field(std::string_view k, const std::string& v) : key(k), value(v) {}
  Field(std::string_view k, bool v) : key(k), value(v ? "true" : "false"), quoted(false) {}
  template <typename T>
    requires std::is_arithmetic_v<T>
  Field(std::string_view k, T v) : key(k), value(fmt::format("{}", v)), quoted(false) {}
};
using Fields = std::initializer_list<Field>;

enum class LogFormat { kText, kJson };

void set_log_level(int level);
int log_level();
void set_log_format(LogFormat format);

// klog's --vmodule: "NAME=LEVEL,NAME=LEVEL", NAME a source file without its ending, * and ? allowed; the
// first that matches counts. Replaces earlier rules. kInvalidInput names the rule that does not parse.
Status set_log_modules(std::string_view rules);

// True if info lines of this level may be written; ask before building costly fields.
bool log_enabled(int level);

void log_info(int level, std::string_view event, Fields fields = {},
              std::source_location at = std::source_location::current());
void log_warning(std::string_view event, Fields fields = {},
                 std::source_location at = std::source_location::current());
void log_error(std::string_view event, const Error& error, Fields fields = {},
               std::source_location at = std::source_location::current());

// A new operation id.
std::string new_op_id();

}  // namespace dracpu::observe

#endif  // DRACPU_OBSERVE_LOG_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "upgrade/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <tuple>

#include "base/escape.h"

namespace dracpu::upgrade {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostNotShown = 20;  // lines of one kind before "and N more"

// One line: no word of the cluster begins a line of its own.
std::string shown(std::string_view text) {
  std::string out = printable(text);
  std::replace(out.begin(), out.end(), '\n', ' ');
  return out;
}

std::string_view heading(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "ERROR";
    case Severity::kWarning:
      return "WARNING";
    case Severity::kInfo:
      return "NOTE";
  }
  return "";
}

std::string anchor(std::string_view section) {
  std::string out(section);
  std::replace(out.begin(), out.end(), ' ', '-');
  return out;
}

std::string number_of(std::size_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string summary(const Report& report) {
  std::size_t counts[3] = {0, 0, 0};
  for (const Finding& f : report.findings) ++counts[static_cast<std::size_t>(f.severity)];
  std::string out = fmt::format("{}, {}, {}", number_of(counts[0], "error"), number_of(counts[1], "warning"),
                                number_of(counts[2], "note"));
  if (!report.not_checked.empty()) out += fmt::format("; {} NOT checked", report.not_checked.size());
  return out +
         (counts[0] == 0 ? "\nNothing found that breaks the move" : "\nThe move would break something") +
         (counts[0] == 0 && !report.not_checked.empty() ? ", as far as could be seen.\n" : ".\n");
}

bool is_same_but_object(const Finding& a, const Finding& b) {
  return std::tie(a.severity, a.id, a.message, a.fix, a.section) ==
         std::tie(b.severity, b.id, b.message, b.fix, b.section);
}

}  // namespace

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kInfo:
      return "info";
  }
  return "";
}

bool Report::has_errors() const {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& f) { return f.severity == Severity::kError; });
}

void sort_findings(std::vector<Finding>& findings) {
  const auto key = [](const Finding& f) {
    return std::tie(f.severity, f.id, f.message, f.fix, f.object, f.section);
  };
  std::sort(findings.begin(), findings.end(),
            [&key](const Finding& a, const Finding& b) { return key(a) < key(b); });
  findings.erase(std::unique(findings.begin(), findings.end()), findings.end());
}

std::string to_text(const Report& report) {
  std::string out = summary(report);
  const std::vector<Finding>& all = report.findings;
  for (std::size_t i = 0; i < all.size();) {
    const Finding& f = all[i];
    out += fmt::format("\n{} {}\n", heading(f.severity), shown(f.id));
    std::size_t same = 0;
    for (; i < all.size() && is_same_but_object(f, all[i]); ++i, ++same) {
      if (same < kMostNotShown) out += fmt::format("  where  {}\n", shown(all[i].object));
    }
    if (same > kMostNotShown)
      out += fmt::format("         and {} more; -o json names all\n", same - kMostNotShown);
    out += fmt::format("  what   {}\n  fix    {}\n  read   docs/user/upgrading.md#{}\n", shown(f.message),
                       shown(f.fix), anchor(f.section));
  }
  if (!report.not_checked.empty()) out += "\nNOT checked:\n";
  for (std::size_t i = 0; i < report.not_checked.size(); ++i) {
    if (i == kMostNotShown) {
      out += fmt::format("  and {} more; -o json names all\n", report.not_checked.size() - i);
      break;
    }
    out += fmt::format("  {}: {}\n", shown(report.not_checked[i].what), shown(report.not_checked[i].why));
  }
  std::string list;
  for (const Checked& c : report.checked) {
    list += fmt::format("{}{}{}", list.empty() ? "" : ", ", shown(c.what),
                        c.detail.empty() ? "" : fmt::format(" ({})", shown(c.detail)));
  }
  return out + fmt::format("\nChecked: {}\n", list.empty() ? "nothing" : list);
}

std::string to_json(const Report& report) {
  json::array findings;
  for (const Finding& f : report.findings) {
    findings.push_back({{"severity", name_of(f.severity)},
                        {"id", f.id},
                        {"object", f.object},
                        {"message", f.message},
                        {"fix", f.fix},
                        {"section", f.section}});
  }
  json::array checked;
  for (const Checked& c : report.checked) checked.emplace_back(c.what);
  json::array not_checked;
  for (const NotChecked& n : report.not_checked) not_checked.push_back({{"what", n.what}, {"why", n.why}});
  return json::serialize(json::object{{"findings", std::move(findings)},
                                      {"checked", std::move(checked)},
                                      {"notChecked", std::move(not_checked)}}) +
         "\n";
}

}  // namespace dracpu::upgrade

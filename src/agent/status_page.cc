// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/status_page.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/escape.h"
#include "base/strings.h"
#include "base/time_text.h"
#include "observe/metrics.h"
#include "topology/picture.h"

namespace dracpu::agent {
namespace {

constexpr std::size_t kTones = 8;

// Nothing but our own style and script may load or run, whatever a name may contain.
constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en" xmlns="http://www.w3.org/1999/xhtml">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; form-action 'self'"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="referrer" content="no-referrer"/>
<noscript><meta http-equiv="refresh" content="10"/></noscript>
<script src="/status.js" defer="defer"></script>
)";

constexpr std::string_view kStyle = R"(<style>
:root{color-scheme:light dark}
body{margin:1rem auto;max-width:100rem;padding:0 1rem;font:15px/1.45 system-ui,sans-serif;background:#fff;color:#1b2430}
h1{font-size:1.4rem;margin:0}
h2{font-size:1.1rem;margin:1.4rem 0 .4rem}
.sub{color:#566273;margin:.1rem 0 .8rem}
.facts{display:flex;flex-wrap:wrap;gap:.6rem;margin:.6rem 0}
.facts div{border:1px solid #c4ccd6;border-radius:6px;padding:.3rem .7rem}
.facts b{display:block;font-size:1.15rem}
.answer{border-left:4px solid #0072b2;padding:.4rem .8rem;background:#eef4fa}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.25rem .7rem .25rem 0;vertical-align:top;border-bottom:1px solid #dde3ea}
td.cpus{font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
td.text{overflow-wrap:anywhere}
.ok{color:#0b6b45}.bad{color:#b3261e;font-weight:bold}.note{color:#7a5200}
.tone{display:inline-block;width:.9em;height:.9em;border:1px solid #3f5f80;border-radius:2px;vertical-align:-.1em}
.cpu-tone-0{background:#e69f00}.cpu-tone-1{background:#56b4e9}.cpu-tone-2{background:#009e73}.cpu-tone-3{background:#f0e442}
.cpu-tone-4{background:#0072b2}.cpu-tone-5{background:#d55e00}.cpu-tone-6{background:#cc79a7}.cpu-tone-7{background:#7f3b08}
.machine .cpu.asked{stroke:#d00000;stroke-width:4;stroke-dasharray:none}
input{font:inherit;width:6em}button{font:inherit}
@media (prefers-color-scheme:dark){
body{background:#11151a;color:#e4e9f0}.sub{color:#a3afbd}.facts div{border-color:#3a4757}
th,td{border-color:#2a333e}.answer{background:#1a2733}.ok{color:#6fd3a6}.bad{color:#ff8a80}.note{color:#e9b949}
.machine .cpu.asked{stroke:#ff6b6b}
}
</style>
)";

// Brings in what changed, every two seconds while somebody looks.
constexpr std::string_view kScript = R"('use strict';
(() => {
  const period = 2000;
  const note = (text) => {
    const place = document.getElementById('live');
    if (place && place.textContent !== text) place.textContent = text;
  };
  async function look() {
    if (!document.hidden) {
      try {
        const answer = await fetch(location.href, {cache: 'no-store'});
        if (!answer.ok) throw new Error('status ' + answer.status);
        const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
        const fresh = page.querySelector('main');
        const shown = document.querySelector('main');
        if (fresh && shown.innerHTML !== fresh.innerHTML) shown.replaceWith(document.adoptNode(fresh));
        document.getElementById('time').textContent = page.getElementById('time').textContent;
        note('live');
      } catch (e) {
        note('no answer from the driver; this is what it said last');
      }
    }
    setTimeout(look, period);
  }
  setTimeout(look, period);
})();
)";

struct Escaped {
  std::string_view text;
};

// Escaped; what is no text becomes "?".
std::string clean(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bytes = utf8_length(text);
    const bool is_control = bytes == 1 && static_cast<unsigned char>(text.front()) < ' ';
    if (bytes == 0 || is_control) {
      out += '?';
    } else {
      append_html(out, text.substr(0, bytes));
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return out;
}

std::string tone_of(std::size_t claim) { return fmt::format("cpu-tone-{}", claim % kTones); }

std::string duration_text(std::chrono::seconds d) {
  const auto s = std::max<std::int64_t>(d.count(), 0);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min", s / 60);
  if (s < 86400) return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
  return fmt::format("{} d {} h", s / 86400, s % 86400 / 3600);
}

std::string plural(std::size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string or_none(const CpuSet& cpus) { return cpus.empty() ? "none" : cpus.to_string(); }

class Page {
 public:
  Page(const StatusFacts& facts, std::optional<std::string_view> asked) : facts_(facts), asked_(asked) {
    if (asked) cpu_ = parse_number<std::uint32_t>(trim(*asked));
  }

  std::string write() {
    out_ = kHead;
    append("<title>dracpu on {}</title>\n", Escaped{facts_.node});
    out_ += kStyle;
    out_ += "</head>\n<body>\n";
    const observe::BuildInfo build = observe::build_info();
    append("<h1>{}</h1>\n", Escaped{facts_.node});
    append(
        "<p class=\"sub\">dracpu {} · driver {} · <span id=\"time\">{}</span> UTC · <span id=\"live\">loads "
        "itself "
        "anew</span></p>\n",
        Escaped{build.version}, Escaped{facts_.driver},
        Escaped{utc_text(std::chrono::system_clock::to_time_t(facts_.now))});
    out_ += "<main>\n";
    if (facts_.owner && facts_.owner->machine) {
      numbers(*facts_.owner);
      question(*facts_.owner);
      picture(*facts_.owner);
      claims(*facts_.owner);
      if (!facts_.owner->memory.empty()) memory(facts_.owner->memory);
    } else {
      out_ +=
          "<p class=\"answer\">This process does not serve the node now; the checks below say why. Claims "
          "and CPUs "
          "are shown by the one that does.</p>\n";
    }
    peers();
    refusals();
    out_ += "</main>\n</body>\n</html>\n";
    return std::move(out_);
  }

 private:
  template <typename T>
  static decltype(auto) safe(T&& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<T>, Escaped>) {
      return clean(value.text);
    } else {
      return std::forward<T>(value);
    }
  }
  // Texts from outside go in as Escaped{text}.
  template <typename... Args>
  void append(std::string_view format, Args&&... args) {
    out_ += fmt::format(fmt::runtime(format), safe(std::forward<Args>(args))...);
  }

  void numbers(const OwnerFacts& o) {
    CpuSet held;
    for (const StatusClaim& c : o.claims) held |= c.cpus;
    out_ += "<div class=\"facts\">\n";
    const auto fact = [&](std::string_view name, const CpuSet& cpus) {
      append("<div>{}<b>{}</b></div>\n", name, cpus.size());
    };
    fact("CPUs", o.machine->topology.online);
    fact("reserved", facts_.reserved & o.machine->topology.online);
    fact("held by claims", held);
    fact("shared pool", o.pool);
    if (!o.machine->topology.offline.empty()) fact("offline", o.machine->topology.offline);
    append("<div>claims<b>{}</b></div>\n<div>shared containers<b>{}</b></div>\n</div>\n", o.claims.size(),
           o.shared_containers);
  }

  void question(const OwnerFacts& o) {
    append(
        "<form method=\"get\" action=\"/\"><label>Who owns CPU <input name=\"cpu\" inputmode=\"numeric\" "
        "value=\"{}\"/></label> <button>Look</button></form>\n",
        Escaped{asked_.value_or("")});
    if (!asked_) return;
    std::string answer;
    if (!cpu_) {
      answer = "Ask with the number of a CPU.";
    } else {
      answer = fmt::format("CPU {}: {}", *cpu_, owner_text(o, CpuId(*cpu_)));
    }
    append("<p class=\"answer\">{}</p>\n", Escaped{answer});
  }

  static std::string claim_text(const StatusClaim& c) {
    std::string out =
        c.name.empty() ? fmt::format("claim {}", c.uid.get()) : fmt::format("claim {}/{}", c.ns, c.name);
    if (c.container.empty()) return out + ", which no container has used yet";
    return out + fmt::format(", container \"{}\" of pod {}{}", c.container, c.pod,
                             c.is_running ? "" : ", not running now");
  }

  std::string owner_text(const OwnerFacts& o, CpuId cpu) const {
    const std::string_view offline = o.machine->topology.offline.contains(cpu) ? " It is offline now." : "";
    for (const StatusClaim& c : o.claims) {
      if (c.cpus.contains(cpu)) return claim_text(c) + "." + std::string(offline);
    }
    if (!offline.empty()) return "offline.";
    if (facts_.reserved.contains(cpu)) return "reserved for the system; no claim gets it.";
    if (o.pool.contains(cpu))
      return fmt::format("in the shared pool, used by {} without a claim.",
                         plural(o.shared_containers, "container"));
    return o.machine->topology.online.contains(cpu) ? "not managed; its facts are incomplete."
                                                    : "this machine has no such CPU.";
  }

  void picture(const OwnerFacts& o) {
    std::map<CpuId, std::size_t> owners;
    for (std::size_t i = 0; i < o.claims.size(); ++i) {
      o.claims[i].cpus.for_each([&](CpuId cpu) { owners.emplace(cpu, i); });
    }
    topology::SvgOptions options;
    options.title = "CPUs of " + facts_.node;
    options.paint = [&](CpuId cpu) -> std::optional<topology::CpuPaint> {
      const std::string mark = cpu_ && CpuId(*cpu_) == cpu ? " asked" : "";
      if (const auto owner = owners.find(cpu); owner != owners.end())
        return topology::CpuPaint{tone_of(owner->second) + mark, claim_text(o.claims[owner->second])};
      if (facts_.reserved.contains(cpu)) return topology::CpuPaint{"cpu-reserved" + mark, "reserved"};
      if (o.pool.contains(cpu)) return topology::CpuPaint{"cpu-shared" + mark, "shared pool"};
      return std::nullopt;
    };
    if (!facts_.reserved.empty()) options.legend.push_back({"cpu-reserved", "reserved"});
    options.legend.push_back({"cpu-shared", "shared pool"});
    if (!o.claims.empty()) options.legend.push_back({"cpu-tone-0", "a claim; see the table for which"});
    out_ += "<div class=\"wide\">\n";
    out_ += topology::svg_picture(o.machine->topology, options);
    out_ += "</div>\n";
  }

  void claims(const OwnerFacts& o) {
    append("<h2>Claims ({})</h2>\n", o.claims.size());
    if (o.claims.empty()) {
      out_ += "<p>No claim holds CPUs of this node.</p>\n";
    } else {
      out_ +=
          "<div "
          "class=\"wide\"><table><thead><tr><th></th><th>CPUs</th><th>pod</th><th>container</th><th>claim</"
          "th>"
          "<th>age</th></tr></thead><tbody>\n";
      const std::int64_t now = std::chrono::system_clock::to_time_t(facts_.now);
      for (std::size_t i = 0; i < o.claims.size(); ++i) {
        const StatusClaim& c = o.claims[i];
        const CpuSet offline = c.cpus & o.machine->topology.offline;
        append("<tr><td><span class=\"tone {}\"></span></td><td class=\"cpus\">{}{}</td>", tone_of(i),
               or_none(c.cpus),
               offline.empty() ? ""
                               : fmt::format(" <span class=\"bad\">{} offline</span>", offline.to_string()));
        append("<td class=\"text\">{}</td><td>{}{}</td>", Escaped{c.pod.empty() ? "none yet" : c.pod},
               Escaped{c.container}, c.container.empty() || c.is_running ? "" : " (not running)");
        append("<td class=\"text\" title=\"{}\">{}</td><td>{}</td></tr>\n", Escaped{c.uid.get()},
               Escaped{c.name.empty() ? c.uid.get() : c.ns + "/" + c.name},
               c.prepared_at == 0 ? "not known" : duration_text(std::chrono::seconds(now - c.prepared_at)));
      }
      out_ += "</tbody></table></div>\n";
    }
    append("<h2>Shared pool</h2>\n<p>CPUs {} for {}{}.</p>\n", or_none(o.pool),
           plural(o.shared_containers, "container"),
           o.stale_containers == 0
               ? ""
               : fmt::format("; {} still to be told of a change", plural(o.stale_containers, "container")));
  }

  void memory(const std::vector<StatusMemory>& spans) {
    out_ +=
        "<h2>Memory</h2>\n<div class=\"wide\"><table><thead><tr><th>kind</th><th>NUMA node</th><th>for "
        "claims</th><th>held</th><th>left</th><th>claims</th></tr></thead><tbody>\n";
    for (const StatusMemory& s : spans) {
      std::string claims;
      for (const std::string& c : s.claims) claims += (claims.empty() ? "" : ", ") + c;
      append("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}{}</td><td>{}</td><td class=\"text\">{}</td></tr>\n",
             Escaped{s.resource}, s.node, s.capacity, s.held,
             s.is_healthy ? "" : " <span class=\"bad\">more than there is</span>", s.left, Escaped{claims});
    }
    out_ += "</tbody></table></div>\n";
  }

  void peers() {
    out_ += "<h2>Connections and checks</h2>\n<table><tbody>\n";
    for (const observe::HealthCheck& c : facts_.checks) {
      const auto since = std::chrono::steady_clock::now() - c.since;
      append(
          "<tr><td>{}</td><td class=\"{}\">{}</td><td class=\"text\">{}</td></tr>\n", Escaped{c.name},
          c.ok ? "ok" : "bad", c.ok ? "ok" : "failed",
          Escaped{c.ok ? fmt::format("for {}",
                                     duration_text(std::chrono::duration_cast<std::chrono::seconds>(since)))
                       : c.reason});
    }
    if (facts_.owner && !facts_.owner->runtime.empty())
      append("<tr><td>runtime</td><td class=\"ok\">connected</td><td>{}</td></tr>\n",
             Escaped{facts_.owner->runtime});
    for (const observe::Advice& a : facts_.advice)
      append("<tr><td>{}</td><td class=\"note\">change it</td><td class=\"text\">{}</td></tr>\n",
             Escaped{a.name}, Escaped{a.text});
    append("<tr><td>process</td><td class=\"ok\">running</td><td>for {}</td></tr>\n</tbody></table>\n",
           duration_text(std::chrono::duration_cast<std::chrono::seconds>(facts_.up)));
  }

  void refusals() {
    out_ += "<h2>Last refusals</h2>\n";
    if (facts_.refusals.empty()) {
      out_ += "<p>None since the process began.</p>\n";
      return;
    }
    out_ +=
        "<div "
        "class=\"wide\"><table><thead><tr><th>last</th><th>times</th><th>of</th><th>why</th></tr></"
        "thead><tbody>\n";
    for (const Refusal& r : facts_.refusals) {
      append("<tr><td>{}</td><td>{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td></tr>\n",
             utc_text(std::chrono::system_clock::to_time_t(r.last)), r.times, Escaped{r.who},
             Escaped{r.what});
    }
    out_ += "</tbody></table></div>\n";
  }

  const StatusFacts& facts_;
  const std::optional<std::string_view> asked_;
  std::optional<std::uint32_t> cpu_;
  std::string out_;
};

}  // namespace

std::string status_html(const StatusFacts& facts, std::optional<std::string_view> asked) {
  return Page(facts, asked).write();
}

observe::HttpResponse status_script(const observe::HttpRequest& /*request*/) {
  return {200, std::string(kScript), "text/javascript; charset=utf-8"};
}

void add_status_routes(observe::HttpServer& http, const StatusBoard& board) {
  http.route("/", [&board](const observe::HttpRequest& request) {
    std::optional<std::string_view> asked;
    if (const std::string_view cpu = request.query_value("cpu"); !cpu.empty()) asked = cpu;
    return observe::HttpResponse{200, status_html(board.facts(), asked), "text/html; charset=utf-8"};
  });
  http.route("/status.js", status_script);
}

}  // namespace dracpu::agent

// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "config/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "config/parts.h"

namespace dracpu::config {
namespace {

using Type = FieldDoc::Type;

constexpr std::string_view kCpuList = "^(none|[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)$";
constexpr std::string_view kPath = "^(/.*)?$";

std::string_view type_text(const FieldDoc& f) {
  switch (f.type) {
    case Type::kYesNo:
      return "boolean";
    case Type::kNumber:
      return "integer";
    case Type::kText:
    case Type::kWord:
      break;
  }
  return "string";
}

std::string allowed_text(const FieldDoc& f) {
  if (f.type == Type::kYesNo) return "`true`, `false`";
  if (f.type == Type::kNumber)
    return fmt::format("{} to {}{}{}", f.least, f.most, f.unit.empty() ? "" : " ", f.unit);
  std::string out;
  for (const std::string_view w : f.words) out += fmt::format("{}`{}`", out.empty() ? "" : ", ", w);
  return out.empty() ? "text" : out;
}

void append_field(std::string& out, const FieldDoc& f) {
  fmt::format_to(std::back_inserter(out), "        {}: {{\n          \"type\": \"{}\",\n", yaml_quoted(f.key),
                 type_text(f));
  if (!f.words.empty()) {
    std::string words;
    for (const std::string_view w : f.words) words += fmt::format("{}\"{}\"", words.empty() ? "" : ", ", w);
    fmt::format_to(std::back_inserter(out), "          \"enum\": [{}],\n", words);
  }
  if (f.type == Type::kNumber) {
    fmt::format_to(std::back_inserter(out), "          \"minimum\": {},\n          \"maximum\": {},\n",
                   f.least, f.most);
  }
  if (!f.pattern.empty()) {
    fmt::format_to(std::back_inserter(out), "          \"pattern\": {},\n", yaml_quoted(f.pattern));
  }
  std::string text(f.meaning);
  text.erase(std::remove(text.begin(), text.end(), '`'), text.end());
  fmt::format_to(std::back_inserter(out), "          \"description\": {}\n        }}", yaml_quoted(text));
}

}  // namespace

const std::vector<FieldDoc>& field_docs() {
  static const std::vector<FieldDoc> docs = {
      {"node", "name", Type::kText, {}, 0, 0, "", "downward API, else the host name", "the Node's name"},
      {"node",
       "reservedCPUs",
       Type::kText,
       {},
       0,
       0,
       "",
       "",
       "CPUs that no claim gets, as a Linux list (`0-1,8`), or `none`; keep it equal to the kubelet's "
       "`reservedSystemCPUs`",
       kCpuList},
      {"node",
       "sysfsOverlay",
       Type::kText,
       {},
       0,
       0,
       "",
       "empty",
       "a YAML file that replaces files of `/sys`, for tests"},
      {"cpu",
       "devices",
       Type::kWord,
       {"grouped", "individual"},
       0,
       0,
       "",
       "`grouped`",
       "`grouped`: a device is a group of CPUs with a capacity; `individual` (deprecated): a device is one "
       "CPU"},
      {"cpu",
       "groupBy",
       Type::kWord,
       {"numanode", "socket", "machine"},
       0,
       0,
       "",
       "`numanode`",
       "which CPUs form one device; `machine` with `allocator: external` only"},
      {"cpu",
       "allocator",
       Type::kWord,
       {"cpumanager", "external"},
       0,
       0,
       "",
       "`cpumanager`",
       "`cpumanager`: the driver chooses CPUs; `external`: somebody writes them into the allocation"},
      {"cpu",
       "preferL3",
       Type::kYesNo,
       {},
       0,
       0,
       "",
       "`true`",
       "CPUs of one claim share a last-level cache where that is possible"},
      {"publish",
       "driverName",
       Type::kText,
       {},
       0,
       0,
       "",
       "`dra.cpu`",
       "name of the driver, of its attributes and its DeviceClass"},
      {"publish",
       "pcieRoots",
       Type::kYesNo,
       {},
       0,
       0,
       "",
       "`false`",
       "publish PCIe roots near each device; claims matched on a root then get CPUs local to it first"},
      {"publish",
       "nodeAllocatableMapping",
       Type::kYesNo,
       {},
       0,
       0,
       "",
       "`false`",
       "publish how the capacity maps to the node's allocatable CPU"},
      {"memory",
       "enabled",
       Type::kYesNo,
       {},
       0,
       0,
       "",
       "`false`",
       "serve memory and hugepages, too, as driver `dra.memory`: [memory.md](memory.md)"},
      {"memory",
       "mode",
       Type::kWord,
       {"separate", "combined"},
       0,
       0,
       "",
       "`separate`",
       "`separate`: memory devices of their own; `combined` (alpha): memory comes with the CPUs of one "
       "device"},
      {"memory",
       "nodes",
       Type::kText,
       {},
       0,
       0,
       "",
       "empty: those with CPUs",
       "NUMA nodes whose memory is offered, as a list (`0-1,4`)"},
      {"memory",
       "reserved",
       Type::kText,
       {},
       0,
       0,
       "",
       "empty",
       "what no claim gets, per NUMA node: `0:memory=1Gi,hugepages-2Mi=64Mi;1:memory=512Mi`"},
      {"memory",
       "hugetlbEnforcement",
       Type::kWord,
       {"none", "container", "pod"},
       0,
       0,
       "",
       "`container`",
       "hugepage limits of containers with hugepage claims: not set, set through the runtime; `pod`: their "
       "pods' limits, too, in the node's cgroup tree"},
      {"memory",
       "limitPolicy",
       Type::kWord,
       {"none", "whenUnset"},
       0,
       0,
       "",
       "`none`",
       "`whenUnset`: a container without a memory limit gets one, the sum of its memory claims"},
      {"memory",
       "verifyFreeHugepages",
       Type::kYesNo,
       {},
       0,
       0,
       "",
       "`true`",
       "a hugepage claim is refused while the kernel has too few pages free"},
      {"memory",
       "rescanSeconds",
       Type::kNumber,
       {},
       0,
       3600,
       "s",
       "`60`",
       "how often amounts are read anew; `0`: never, else at least 10"},
      {"state",
       "file",
       Type::kText,
       {},
       0,
       0,
       "",
       "`KUBELETROOT/plugins/dracpu/state.json`",
       "where prepared claims are kept",
       kPath},
      {"runtime",
       "kubeletRootDir",
       Type::kText,
       {},
       0,
       0,
       "",
       "`/var/lib/kubelet`",
       "the kubelet's `--root-dir`",
       kPath},
      {"runtime",
       "nriSocket",
       Type::kText,
       {},
       0,
       0,
       "",
       "`/var/run/nri/nri.sock`",
       "the runtime's NRI socket",
       kPath},
      {"runtime",
       "cdiDir",
       Type::kText,
       {},
       0,
       0,
       "",
       "`/var/run/cdi`",
       "CDI files and the lock of the node; a local disk or tmpfs",
       kPath},
      {"runtime",
       "kubeconfig",
       Type::kText,
       {},
       0,
       0,
       "",
       "empty: in-cluster",
       "how to reach the API server"},
      {"runtime",
       "growPool",
       Type::kWord,
       {"auto", "nextHook"},
       0,
       0,
       "",
       "`auto`",
       "`auto`: running shared containers get freed CPUs at once where the runtime is safe for it; "
       "`nextHook`: with "
       "its next call"},
      {"observe",
       "bindAddress",
       Type::kText,
       {},
       0,
       0,
       "",
       "`:8080`",
       "metrics and health; also `unix:/path`"},
      {"observe",
       "statusPage",
       Type::kText,
       {},
       0,
       0,
       "",
       "empty: off",
       "address of the status page, for instance `127.0.0.1:8081`; it names pods, so keep it local"},
      {"observe", "events", Type::kYesNo, {}, 0, 0, "", "`true`", "events on pods about refusals"},
      {"observe",
       "logFormat",
       Type::kWord,
       {"text", "json"},
       0,
       0,
       "",
       "`text`",
       "`text` (klog's look) or `json`"},
      {"observe", "verbosity", Type::kNumber, {}, 0, kMostVerbose, "", "`0`", "log level, see below"},
  };
  return docs;
}

std::string reference_table() {
  std::string out = "| field | values | default | meaning |\n|---|---|---|---|\n";
  for (const FieldDoc& f : field_docs()) {
    fmt::format_to(std::back_inserter(out), "| `{}.{}` | {} | {} | {} |\n", f.section, f.key, allowed_text(f),
                   f.usual.empty() ? "must be stated" : f.usual, f.meaning);
  }
  return out;
}

std::string json_schema() {
  std::string out = fmt::format(
      "{{\n  \"$schema\": \"http://json-schema.org/draft-07/schema#\",\n"
      "  \"title\": \"dracpu driver configuration\",\n  \"type\": \"object\",\n"
      "  \"additionalProperties\": false,\n  \"required\": [\"apiVersion\", \"kind\", \"node\"],\n"
      "  \"properties\": {{\n    \"apiVersion\": {{\"const\": \"{}\"}},\n"
      "    \"kind\": {{\"const\": \"DriverConfiguration\"}}",
      kV1Beta1);
  std::string_view section;
  for (const FieldDoc& f : field_docs()) {
    if (f.section != section) {
      if (!section.empty()) out += "\n      }\n    }";
      section = f.section;
      std::string required;
      for (const FieldDoc& g : field_docs()) {
        if (g.section == section && g.usual.empty())
          required += fmt::format("{}\"{}\"", required.empty() ? "" : ", ", g.key);
      }
      fmt::format_to(
          std::back_inserter(out),
          ",\n    \"{}\": {{\n      \"type\": \"object\",\n      \"additionalProperties\": false,\n",
          section);
      if (!required.empty()) fmt::format_to(std::back_inserter(out), "      \"required\": [{}],\n", required);
      out += "      \"properties\": {\n";
    } else {
      out += ",\n";
    }
    append_field(out, f);
  }
  out += "\n      }\n    }\n  }\n}\n";
  return out;
}

}  // namespace dracpu::config

// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the files of this folder share: settings as stated, before their values are judged together.
//
// The readers of the two file forms check keys and types; resolve.cc checks values and combinations, so that
// a flag can still replace a bad value of the file, and so that both forms obey one set of rules.

#ifndef DRACPU_CONFIG_PARTS_H_
#define DRACPU_CONFIG_PARTS_H_

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/escape.h"
#include "base/result.h"
#include "config/load.h"
#include "config/yaml.h"

namespace dracpu::config {

// A value with its name and origin, for messages.
struct Stated {
  std::string value;
  std::string name;  // "groupBy", "cpu.groupBy" or "--group-by"
  std::string from;  // "\"/etc/c.yaml\", line 3, column 5", or "command line"

  template <typename... Args>
  Error refuse(fmt::format_string<Args...> format, Args&&... args) const {
    return Error{Errc::kInvalidInput, fmt::format("{}: {} {} {}", from, name, in_quotes(value),
                                                  fmt::format(format, std::forward<Args>(args)...))};
  }
};

struct Settings {
  Config config;  // fields that need no further judgement
  Stated device_mode{"grouped", "cpuDeviceMode", "default"};
  Stated group_by{"numanode", "groupBy", "default"};
  Stated allocator{"cpumanager", "allocator", "default"};
  Stated reserved_cpus{"", "reservedCPUs", "default"};
  bool reserved_stated = false;
  Stated node_name{"", "hostnameOverride", "default"};
  Stated driver_name{"dra.cpu", "driverName", "default"};
  Stated kubelet_root_dir{"/var/lib/kubelet", "kubeletRootDir", "default"};
  Stated nri_socket{"/var/run/nri/nri.sock", "nriSocket", "default"};
  Stated cdi_dir{"/var/run/cdi", "cdiDir", "default"};
  Stated state_file{"", "state.file", "default"};
  Stated bind_address{":8080", "bindAddress", "default"};
  Stated status_page{"", "statusPage", "default"};
  Stated memory_nodes{"", "memory.nodes", "default"};
  Stated memory_reserved{"", "memory.reserved", "default"};
  Stated memory_mode{"separate", "memory.mode", "default"};
  Stated memory_rescan{"60", "memory.rescanSeconds", "default"};
  std::vector<Warning> warnings;
};

// Problems of one file, told together and in the order of the file.
class Problems {
 public:
  explicit Problems(std::string file, std::string kind = "config file")
      : file_(std::move(file)), kind_(std::move(kind)) {}

  void add(Position at, std::string text) { all_.emplace_back(at, std::move(text)); }
  bool empty() const { return all_.empty(); }
  std::string place(Position at) const { return fmt::format("\"{}\", {}", file_, to_string(at)); }
  const std::string& file() const { return file_; }
  Error to_error() const;

 private:
  std::string file_;
  std::string kind_;
  std::vector<std::pair<Position, std::string>> all_;
};

// Reads the keys of one mapping. Wrong types go to `problems`; finish() reports what nobody asked for.
class Section {
 public:
  enum class Rules {
    kFlat,
    kStrict
  };  // flat: nulls count as absent and yes/no as booleans, as release 0.3.0

  Section(const YamlNode& node, std::string prefix, Rules rules, Problems& problems,
          std::vector<Warning>& warnings)
      : node_(node), prefix_(std::move(prefix)), rules_(rules), problems_(problems), warnings_(warnings) {}

  // True if the key is there with a usable value, which is then in `out`.
  bool text(std::string_view key, std::string& out);
  bool text(std::string_view key, Stated& out);
  bool boolean(std::string_view key, bool& out);
  bool integer(std::string_view key, int low, int high, int& out);
  template <typename E>
  bool choice(std::string_view key, std::initializer_list<E> values, E& out) {
    std::string word;
    if (!text(key, word)) return false;
    std::vector<std::string_view> names;
    for (const E value : values) {
      names.push_back(name_of(value));
      if (names.back() != word) continue;
      out = value;
      return true;
    }
    refuse_choice(key, word, names);
    return false;
  }
  // One of a few words, kept nowhere.
  bool word(std::string_view key, std::initializer_list<std::string_view> words);
  // The mapping below a key; nullptr if the key is absent or no mapping.
  const YamlNode* section(std::string_view key);

  const YamlNode* find(std::string_view key);
  std::string name(std::string_view key) const { return prefix_ + std::string(key); }
  void finish();

 private:
  const YamlNode* value(std::string_view key, YamlType wanted, std::string_view wanted_text);
  void refuse_choice(std::string_view key, std::string_view word, std::span<const std::string_view> names);

  const YamlNode& node_;
  std::string prefix_;
  Rules rules_;
  Problems& problems_;
  std::vector<Warning>& warnings_;
  std::vector<std::string_view> known_;
};

// "a, b or c".
std::string one_of(std::span<const std::string_view> words);
std::string lower(std::string_view text);

// The two forms. `root` is a mapping or null.
Status read_v1alpha1(const YamlNode& root, const std::string& file, Settings& out);
Status read_v1beta1(const YamlNode& root, const std::string& file, Settings& out);

// One field of the nested form, as text.
struct FieldText {
  std::string_view section;
  std::string_view key;
  std::string_view old_key;  // of the flat form; empty: it has none
  std::string value;
  std::string usual;  // the default
};
// All of them, in the order of the form.
std::vector<FieldText> fields_of(const Config& config);

inline constexpr std::string_view kV1Alpha1 = "v1alpha1";
inline constexpr std::string_view kV1Beta1 = "dracpu/v1beta1";

}  // namespace dracpu::config

#endif  // DRACPU_CONFIG_PARTS_H_

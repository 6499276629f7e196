// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "processes.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/file.h"
#include "base/strings.h"

namespace dracpu::sandbox {
namespace {

namespace fs = std::filesystem;

// Writes to a kernel file; the kernel judges at write(2), so the stream is flushed and asked.
Status put(const fs::path& path, const std::string& text) {
  std::ofstream out(path);
  out << text << std::flush;
  if (!out) return make_error(Errc::kUnavailable, "write \"{}\" to \"{}\"", text, path.string());
  return ok_status();
}

std::string get(const fs::path& path) {
  Result<std::string> text = read_file(path);
  return text.ok() ? std::string(trim(*text)) : std::string();
}

bool has_word(const std::string& text, std::string_view word, char separator) {
  const std::vector<std::string_view> words = split(text, separator);
  return std::find(words.begin(), words.end(), word) != words.end();
}

struct Own {
  fs::path group;
  bool second_version = false;
};

// This process's cpuset group as a folder, or an empty path.
Own own_group() {
  std::string first;   // path in the v1 hierarchy that has cpuset
  std::string second;  // path in the v2 hierarchy
  const std::string groups = get("/proc/self/cgroup");
  for (const std::string_view line : split(groups, '\n')) {
    const std::vector<std::string_view> part = split(line, ':');
    if (part.size() < 3) continue;
    if (has_word(std::string(part[1]), "cpuset", ',')) first = part[2];
    if (part[0] == "0" && part[1].empty()) second = part[2];
  }
  Own v2;
  const std::string mounts = get("/proc/self/mountinfo");
  for (const std::string_view line : split(mounts, '\n')) {
    const std::vector<std::string_view> part = split(line, ' ');
    if (part.size() < 10) continue;
    const std::string_view type = part[part.size() - 3];
    const std::string root(part[3]);
    const auto below = [&](const std::string& path) {
      const std::string rest = root != "/" && path.starts_with(root) ? path.substr(root.size()) : path;
      return fs::path(std::string(part[4]) + "/" + rest).lexically_normal();
    };
    if (type == "cgroup" && !first.empty() && has_word(std::string(part.back()), "cpuset", ',')) {
      return {below(first), false};
    }
    if (type == "cgroup2" && !second.empty()) v2 = {below(second), true};
  }
  // Children have a cpuset only if the group passes the controller on; that is not ours to switch on.
  if (!v2.group.empty() && !has_word(get(v2.group / "cgroup.subtree_control"), "cpuset", ' ')) return {};
  return v2;
}

// All threads of the process.
Status set_affinity(pid_t pid, const CpuSet& cpus) {
  const std::size_t count = cpus.last()->get() + 1;
  cpu_set_t* mask = CPU_ALLOC(count);
  const std::size_t size = CPU_ALLOC_SIZE(count);
  CPU_ZERO_S(size, mask);
  cpus.for_each([&](CpuId cpu) { CPU_SET_S(cpu.get(), size, mask); });
  Status out = ok_status();
  std::error_code ec;
  for (const auto& task : fs::directory_iterator(fmt::format("/proc/{}/task", pid), ec)) {
    const pid_t thread = std::stoi(task.path().filename().string());
    if (::sched_setaffinity(thread, size, mask) == 0) continue;
    out = make_error(Errc::kUnavailable, "sched_setaffinity of {} to \"{}\": {}", thread, cpus.to_string(),
                     errno_text(errno));
  }
  CPU_FREE(mask);
  return out;
}

}  // namespace

Result<CpuSet> allowed_cpus(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/status", pid);
  Result<std::string> text = read_file(path);
  if (!text.ok()) return std::move(text).error();
  constexpr std::string_view kKey = "Cpus_allowed_list:";
  for (const std::string_view line : split(*text, '\n')) {
    if (line.starts_with(kKey)) return CpuSet::parse(trim(line.substr(kKey.size())));
  }
  return make_error(Errc::kCorrupt, "\"{}\" has no Cpus_allowed_list", path);
}

Processes::Processes(std::vector<std::string> program, const std::string& name, fs::path log)
    : program_(std::move(program)), log_(std::move(log)) {
  if (Result<CpuSet> all = allowed_cpus(::getpid()); all.ok()) all_ = *std::move(all);
  const Own own = own_group();
  if (own.group.empty()) return;
  second_version_ = own.second_version;
  mems_ = get(own.group / (second_version_ ? "cpuset.mems.effective" : "cpuset.mems"));
  group_ = own.group / name;
  const bool made = make_group(group_, all_.to_string()).ok() &&
                    (!second_version_ || put(group_ / "cgroup.subtree_control", "+cpuset").ok());
  if (made) {
    way_ = fmt::format("cpuset cgroup {}, {}", second_version_ ? "v2" : "v1", group_.string());
    return;
  }
  std::error_code ec;
  fs::remove(group_, ec);
  group_.clear();
}

Processes::~Processes() {
  while (!running_.empty()) stop(running_.begin()->first);
  std::error_code ec;
  if (!group_.empty()) fs::remove(group_, ec);  // an empty group goes with rmdir
}

Status Processes::make_group(const fs::path& group, const std::string& cpus) const {
  std::error_code ec;
  fs::create_directory(group, ec);
  if (ec) return make_error(Errc::kUnavailable, "make group \"{}\": {}", group.string(), ec.message());
  if (Status s = put(group / "cpuset.mems", mems_); !s.ok()) return s;
  return put(group / "cpuset.cpus", cpus);
}

Status Processes::confine(const std::string& id, pid_t pid, const std::string& cpus) const {
  if (group_.empty()) {
    Result<CpuSet> set = CpuSet::parse(cpus);
    return set.ok() ? set_affinity(pid, *set) : Status(std::move(set).error());
  }
  if (Status s = make_group(group_of(id), cpus); !s.ok()) return s;
  return put(group_of(id) / "cgroup.procs", std::to_string(pid));
}

Result<pid_t> Processes::start(const std::string& id, const std::string& cpus,
                               const std::vector<std::string>& env) {
  Result<Child> child = Child::start(program_, env, log_);
  if (!child.ok()) return std::move(child).error();
  const pid_t pid = child->pid();
  if (Status s = confine(id, pid, cpus.empty() ? all_.to_string() : cpus); !s.ok())
    return std::move(s).error();
  running_.emplace(id, *std::move(child));
  return pid;
}

Status Processes::set_cpus(const std::string& id, const std::string& cpus) {
  const auto it = running_.find(id);
  if (it == running_.end()) return make_error(Errc::kNotFound, "no process of container \"{}\"", id);
  if (!group_.empty()) return put(group_of(id) / "cpuset.cpus", cpus);
  return confine(id, it->second.pid(), cpus);
}

void Processes::stop(const std::string& id) {
  running_.erase(id);  // kills and waits
  if (group_.empty()) return;
  std::error_code ec;
  fs::remove(group_of(id), ec);
}

}  // namespace dracpu::sandbox

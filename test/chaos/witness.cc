// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "witness.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

namespace dracpu::chaos {
namespace {

constexpr std::size_t kMostFindings = 20;

std::optional<pid_t> peer_of(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0) return std::nullopt;
  return peer.pid;
}

// By either end; what is in the socket still does not count.
bool is_closed(int socket) {
  pollfd look{socket, 0, 0};
  return ::poll(&look, 1, 0) > 0 && (look.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace

std::optional<pid_t> listener_at(const std::filesystem::path& path) {
  sockaddr_un address{};
  const std::string name = path.string();
  if (name.size() >= sizeof address.sun_path) return std::nullopt;
  address.sun_family = AF_UNIX;
  std::memcpy(static_cast<void*>(address.sun_path), name.c_str(), name.size() + 1);
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto* generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  if (!fd.valid() || ::connect(fd.get(), generic, sizeof address) != 0) return std::nullopt;
  return peer_of(fd.get());
}

std::optional<pid_t> lock_holder(const std::filesystem::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return std::nullopt;
  const std::string wanted =
      fmt::format("{:02x}:{:02x}:{}", major(info.st_dev), minor(info.st_dev), info.st_ino);
  std::ifstream in("/proc/locks");
  for (std::string line; std::getline(in, line);) {
    // "3: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF"; one that waits has "->" behind the number.
    std::istringstream words(line);
    std::string number;
    std::string kind;
    std::string mode;
    std::string access;
    pid_t pid = 0;
    std::string where;
    words >> number >> kind >> mode >> access >> pid >> where;
    if (kind == "FLOCK" && where == wanted && pid > 0) return pid;
  }
  return std::nullopt;
}

Witness::Witness(std::filesystem::path registration_socket, std::filesystem::path dra_socket)
    : registration_(std::move(registration_socket)), dra_(std::move(dra_socket)) {
  thread_ = std::thread([this] { look_all(); });
}

Witness::~Witness() {
  stop_ = true;
  thread_.join();
}

void Witness::born(pid_t pid, const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  names_[name] = pid;  // it may have connected before this call
}

void Witness::killed(pid_t pid) {
  const std::lock_guard<std::mutex> lock(mutex_);
  killed_.insert(pid);
  std::erase_if(names_, [pid](const auto& entry) { return entry.second == pid; });
}

void Witness::reaped(pid_t pid) {
  const std::lock_guard<std::mutex> lock(mutex_);
  killed_.erase(pid);
  connected_.erase(pid);
  listened_.erase(pid);
}

void Witness::find(std::string what) {
  if (findings_.size() < kMostFindings) findings_.push_back(std::move(what));
}

void Witness::judge(pid_t pid, const std::string& what) {
  if (killed_.contains(pid)) return;
  for (const Plug& plug : plugs_) {
    if (plug.pid == pid || killed_.contains(plug.pid) || is_closed(plug.socket.get())) continue;
    find(fmt::format("process {} {} while process {} is connected to the runtime", pid, what, plug.pid));
  }
  for (const std::filesystem::path* socket : {&registration_, &dra_}) {
    const std::optional<pid_t> other = listener_at(*socket);
    if (!other || *other == pid || killed_.contains(*other)) continue;
    find(fmt::format("process {} {} while process {} listens at \"{}\"", pid, what, *other,
                     socket->filename().string()));
  }
}

void Witness::connected_to_runtime(int socket) {
  const std::optional<pid_t> pid = peer_of(socket);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(plugs_, [](const Plug& p) { return is_closed(p.socket.get()); });
  if (!pid) return find("a connection to the runtime from nobody knows whom");
  ++counts_.connections;
  if (is_closed(socket)) return;  // of a process that is gone
  connected_.emplace(*pid, Clock::now());
  judge(*pid, "connects to the runtime");
  plugs_.push_back({*pid, UniqueFd(::fcntl(socket, F_DUPFD_CLOEXEC, 0))});
}

void Witness::wrote(const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counts_.writes;
  if (const auto it = names_.find(name); it != names_.end()) judge(it->second, "writes to the API server");
}

std::optional<Witness::Clock::time_point> Witness::connected(pid_t pid) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = connected_.find(pid);
  if (it == connected_.end()) return std::nullopt;
  return it->second;
}

bool Witness::listens(pid_t pid) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return listened_.contains(pid);
}

std::vector<std::string> Witness::findings() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return findings_;
}

Witness::Counts Witness::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

void Witness::look_all() {
  while (!stop_) {
    for (const std::filesystem::path* socket : {&registration_, &dra_}) {
      const std::lock_guard<std::mutex> lock(mutex_);
      const std::optional<pid_t> pid = listener_at(*socket);
      if (!pid || killed_.contains(*pid)) continue;
      if (socket == &registration_ && listened_.insert(*pid).second) ++counts_.listeners;
      judge(*pid, fmt::format("listens at \"{}\"", socket->filename().string()));
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++counts_.looks;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace dracpu::chaos

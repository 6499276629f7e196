// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/unique_fd.h"

extern "C" char** environ;

namespace dracpu::sandbox {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& t : texts) out.push_back(t.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> merged_environment(const std::vector<std::string>& extra) {
  std::vector<std::string> out = extra;
  for (char** e = environ; *e != nullptr; ++e) out.emplace_back(*e);
  return out;
}

}  // namespace

Result<Child> Child::start(const std::vector<std::string>& argv, const std::vector<std::string>& env,
                           const std::filesystem::path& log) {
  UniqueFd out(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!out.valid()) return make_error(Errc::kUnavailable, "open \"{}\": {}", log.string(), errno_text(errno));
  std::vector<std::string> arguments = argv;
  std::vector<std::string> variables = merged_environment(env);
  const std::vector<char*> argument_list = pointers(arguments);
  const std::vector<char*> variable_list = pointers(variables);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return make_error(Errc::kUnavailable, "fork: {}", errno_text(errno));
  if (pid == 0) {
    // Only calls that are safe after a fork of a process with threads.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::signal(SIGPIPE, SIG_DFL);
    ::dup2(out.get(), STDOUT_FILENO);
    ::dup2(out.get(), STDERR_FILENO);
    ::execve(argument_list[0], argument_list.data(), variable_list.data());
    ::_exit(127);
  }
  return Child(pid);
}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    kill();
    pid_ = std::exchange(other.pid_, -1);
    status_ = other.status_;
  }
  return *this;
}

Child::~Child() { kill(); }

bool Child::running() { return pid_ > 0 && !wait(std::chrono::milliseconds(0)); }

std::optional<int> Child::wait(std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!status_ && pid_ > 0) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      break;
    }
    if (std::chrono::steady_clock::now() >= until) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return status_;
}

void Child::signal(int number) const {
  if (pid_ > 0 && !status_) ::kill(pid_, number);
}

void Child::kill() {
  if (pid_ <= 0) return;
  signal(SIGKILL);
  (void)wait(std::chrono::minutes(1));
  pid_ = -1;
}

Result<Folder> Folder::make(const std::string& prefix, std::filesystem::path base) {
  std::error_code ec;
  if (base.empty()) base = std::filesystem::temp_directory_path(ec);
  std::string form = ((ec ? std::filesystem::path("/tmp") : base) / (prefix + "XXXXXX")).string();
  if (::mkdtemp(form.data()) == nullptr)
    return make_error(Errc::kUnavailable, "mkdtemp \"{}\": {}", form, errno_text(errno));
  return Folder(form);
}

Folder::~Folder() {
  if (path_.empty() || keep_) return;
  std::error_code ec;
  std::filesystem::remove_all(path_, ec);
}

Status write_text(const std::filesystem::path& path, std::string_view text) {
  std::error_code ec;
  std::filesystem::create_directories(path.parent_path(), ec);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) return make_error(Errc::kUnavailable, "write \"{}\"", path.string());
  return ok_status();
}

}  // namespace dracpu::sandbox

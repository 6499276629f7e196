// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// dracpu-demo: the driver's main job on an embedded node, with real processes on this machine's CPUs.
//
// Every step is checked against what the kernel says of the processes. Exit status: 0 all as it should be, 1
// not (the line says what was expected and what was seen) or this machine cannot show it, 2 a command line
// that does not parse, 130 interrupted.

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <string_view>

#include "base/file.h"
#include "base/strings.h"
#include "node.h"
#include "processes.h"

namespace dracpu::sandbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Options {
  std::filesystem::path driver;
  bool keep = false;
};

void say(std::string_view title, std::string_view text) {
  // Not fmt::print, which throws when nobody reads any more.
  (void)std::fputs(fmt::format("{:<14}  {}\n", title, text).c_str(), stdout);
  (void)std::fflush(stdout);
}

// An interrupted walk ends between two steps, so that everything is cleaned up.
volatile std::sig_atomic_t interrupted = 0;
void on_interrupt(int /*number*/) { interrupted = 1; }

std::string cpus_word(const CpuSet& cpus) {
  return fmt::format("{} {}", cpus.size() == 1 ? "CPU" : "CPUs", cpus.to_string());
}

class Walk {
 public:
  Walk(Node& node, CpuSet managed) : node_(node), managed_(std::move(managed)) {}

  Status run() {
    for (const auto& step : std::initializer_list<std::function<Status()>>{
             [this] { return install(); }, [this] { return shared(); }, [this] { return first_claim(); },
             [this] { return second_claim(); }, [this] { return release(); },
             [this] { return second_again(); }, [this] { return crash(); },
             [this] { return container_restart(); }, [this] { return finish(); }}) {
      if (Status s = step(); !s.ok()) return s;
      if (interrupted != 0) return ok_status();
    }
    return ok_status();
  }

 private:
  // Waits until the kernel says that the process may run on exactly these CPUs.
  Status expect(const std::string& who, const Pod& pod, const CpuSet& wanted) {
    Result<ContainerView> view = node_.runtime().container(pod.containers.back());
    if (!view.ok()) return std::move(view).error();
    const auto seen = [&] { return allowed_cpus(view->pid); };
    const auto good = [&] {
      const Result<CpuSet> now = seen();
      return now.ok() && *now == wanted;
    };
    if (eventually(seconds(10), [&] { return interrupted != 0 || good(); }) && good()) return ok_status();
    const Result<CpuSet> now = seen();
    return make_error(Errc::kConflict, "{}, process {}: expected to run on {}, seen {}", who, view->pid,
                      wanted.to_string(), now.ok() ? now->to_string() : now.error().text);
  }

  std::string process_text(const Pod& pod) const {
    const Result<ContainerView> view = node_.runtime().container(pod.containers.back());
    if (!view.ok()) return view.error().text;
    const Result<CpuSet> cpus = allowed_cpus(view->pid);
    return fmt::format("process {} may run on: {} (read from /proc/{}/status)", view->pid,
                       cpus.ok() ? cpus->to_string() : cpus.error().text, view->pid);
  }

  CpuSet pool() const { return managed_ - first_ - second_; }

  Status install() {
    if (Status s = node_.start_driver(); !s.ok()) return s;
    if (Status s = node_.wait_ready(seconds(30)); !s.ok()) return s;
    say("install", fmt::format("driver {} registered with the kubelet ({}), synchronized with the runtime",
                               node_.driver_pid(), node_.kubelet().service_of(kDriverName)));
    std::size_t devices = 0;
    for (const auto& slice : node_.slices()) devices += slice.at("spec").at("devices").as_array().size();
    if (devices == 0) return make_error(Errc::kNotFound, "expected at least one published device, seen none");
    say("publish", fmt::format("{} ResourceSlice, {} device, {} to give", node_.slices().size(), devices,
                               cpus_word(managed_)));
    return ok_status();
  }

  Status shared() {
    Result<Pod> pod = node_.start_pod("web");
    if (!pod.ok()) return std::move(pod).error();
    web_ = *std::move(pod);
    if (Status s = expect("shared pod demo/web", web_, managed_); !s.ok()) return s;
    say("shared pod", fmt::format("demo/web -> the shared pool; {}", process_text(web_)));
    return ok_status();
  }

  // A claim, its pod, and the CPUs it got: exactly one, from the pool.
  Result<Pod> claim_pod(const std::string& name, CpuSet& got) {
    Result<ClaimName> claim = node_.make_claim(name, 1);
    if (!claim.ok()) return std::move(claim).error();
    claims_[name] = *claim;
    return run_claimed(name, got);
  }

  Result<Pod> run_claimed(const std::string& name, CpuSet& got) {
    const CpuSet free = pool();
    Result<Pod> pod = node_.start_pod(name, {claims_.at(name)});
    if (!pod.ok()) return pod;
    Result<CpuSet> cpus = node_.claim_cpus(claims_.at(name));
    if (!cpus.ok()) return std::move(cpus).error();
    if (cpus->size() != 1 || !cpus->is_subset_of(free)) {
      return make_error(Errc::kConflict, "claim demo/{}: expected one CPU of {}, seen {}", name,
                        free.to_string(), cpus->to_string());
    }
    got = *std::move(cpus);
    if (Status s = expect("claim demo/" + name, *pod, got); !s.ok()) return std::move(s).error();
    say("claim", fmt::format("demo/{} (1 CPU) -> {}; {}", name, cpus_word(got), process_text(*pod)));
    return pod;
  }

  Status pool_is(const char* title) {
    if (Status s = expect("shared pod demo/web", web_, pool()); !s.ok()) return s;
    say(title, fmt::format("demo/web is moved; {}", process_text(web_)));
    return ok_status();
  }

  Status first_claim() {
    Result<Pod> pod = claim_pod("trainer", first_);
    if (!pod.ok()) return std::move(pod).error();
    trainer_ = *std::move(pod);
    return pool_is("pool shrinks");
  }

  Status second_claim() {
    if (pool().size() > 1) {
      Result<Pod> pod = claim_pod("encoder", second_);
      if (!pod.ok()) return std::move(pod).error();
      encoder_ = *std::move(pod);
      return pool_is("pool shrinks");
    }
    CpuSet got;
    const Result<Pod> pod = claim_pod("encoder", got);
    if (pod.ok()) {
      return make_error(
          Errc::kConflict,
          "claim demo/encoder: expected a refusal, because demo/web would have no CPU; seen CPU {}",
          got.to_string());
    }
    say("refused", fmt::format("demo/encoder (1 CPU): {}", pod.error().text));
    if (Status s = expect("claim demo/trainer", trainer_, first_); !s.ok()) return s;
    return expect("shared pod demo/web", web_, pool());
  }

  Status release() {
    if (Status s = node_.end_pod(trainer_); !s.ok()) return s;
    if (Status s = node_.delete_claim(claims_.at("trainer")); !s.ok()) return s;
    say("release", fmt::format("demo/trainer ended, {} free again", cpus_word(first_)));
    first_.clear();
    return pool_is("pool grows");
  }

  Status second_again() {
    if (!second_.empty()) return ok_status();
    Result<Pod> pod = run_claimed("encoder", second_);
    if (!pod.ok()) return std::move(pod).error();
    encoder_ = *std::move(pod);
    return pool_is("pool shrinks");
  }

  Status crash() {
    const pid_t before = node_.driver_pid();
    node_.kill_driver();
    if (Status s = node_.start_driver(); !s.ok()) return s;
    if (Status s = node_.wait_ready(seconds(30)); !s.ok()) return s;
    say("kill -9", fmt::format("driver {} killed, driver {} took over", before, node_.driver_pid()));
    const Result<CpuSet> kept = node_.claim_cpus(claims_.at("encoder"));
    if (!kept.ok() || *kept != second_) {
      return make_error(Errc::kConflict, "claim demo/encoder after the restart: expected {}, seen {}",
                        second_.to_string(), kept.ok() ? kept->to_string() : kept.error().text);
    }
    if (Status s = expect("claim demo/encoder", encoder_, second_); !s.ok()) return s;
    if (Status s = expect("shared pod demo/web", web_, pool()); !s.ok()) return s;
    say("kept", fmt::format("demo/encoder -> {}; {}", cpus_word(second_), process_text(encoder_)));
    say("kept", fmt::format("demo/web -> the shared pool; {}", process_text(web_)));
    return ok_status();
  }

  Status container_restart() {
    if (Status s = node_.runtime().remove(encoder_.containers.back()); !s.ok()) return s;
    Result<std::string> id = node_.add_container(encoder_);
    if (!id.ok()) return std::move(id).error();
    if (Status s = expect("claim demo/encoder", encoder_, second_); !s.ok()) return s;
    say("restart", fmt::format("the container of demo/encoder came back; {}", process_text(encoder_)));
    return ok_status();
  }

  Status finish() {
    if (Status s = node_.end_pod(encoder_); !s.ok()) return s;
    second_.clear();
    if (Status s = pool_is("pool grows"); !s.ok()) return s;
    if (Status s = node_.end_pod(web_); !s.ok()) return s;
    Result<int> status = node_.stop_driver();
    if (!status.ok()) return std::move(status).error();
    if (*status != 0)
      return make_error(Errc::kInternal, "driver stop: expected exit status 0, seen {}", *status);
    say("stop", "the driver stopped cleanly");
    return ok_status();
  }

  Node& node_;
  const CpuSet managed_;
  CpuSet first_;
  CpuSet second_;
  Pod web_;
  Pod trainer_;
  Pod encoder_;
  std::map<std::string, ClaimName> claims_;
};

int fail(const Error& error) {
  fmt::print(stderr, "dracpu-demo: {}\n", error.text);
  return 1;
}

int run(const Options& options) {
  Result<CpuSet> ours = allowed_cpus(::getpid());
  if (!ours.ok()) return fail(ours.error());
  if (ours->size() < 2) {
    return fail(
        make_error(Errc::kUnsupported,
                   "pinning cannot be shown here: processes may use one CPU only ({}), and it takes two, one "
                   "to give away and one that stays shared",
                   ours->to_string()));
  }
  // CPUs of the machine that this process may not use are reserved, so that nothing is promised on them.
  Result<std::string> text = read_file("/sys/devices/system/cpu/online");
  if (!text.ok()) return fail(text.error());
  Result<CpuSet> online = CpuSet::parse(trim(*text));
  if (!online.ok()) return fail(online.error());
  const CpuSet reserved = *online - *ours;

  Result<Folder> folder = Folder::make("dracpu-");
  if (!folder.ok()) return fail(folder.error());
  if (options.keep) folder->keep();
  std::error_code ec;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", ec).string();
  Processes processes({self, "--pause"}, folder->path().filename().string(),
                      folder->path() / "containers.log");
  say("folder", folder->path().string() + (options.keep ? " (kept)" : " (removed at the end)"));
  say("machine", fmt::format("{} of this machine{}", cpus_word(*ours),
                             reserved.empty() ? "" : fmt::format("; {} reserved", cpus_word(reserved))));
  say("pinning by", processes.way());

  NodeOptions node_options;
  node_options.driver = std::filesystem::absolute(options.driver);
  node_options.reserved_cpus = reserved.empty() ? "none" : reserved.to_string();
  node_options.runtime.host = &processes;
  Result<std::unique_ptr<Node>> node = Node::create(folder->path(), std::move(node_options));
  if (!node.ok()) return fail(node.error());
  const Status walked = Walk(**node, *ours).run();
  if (interrupted != 0) {
    (void)std::fputs("dracpu-demo: interrupted\n", stderr);
    return 130;
  }
  if (!walked.ok()) {
    fmt::print(stderr, "dracpu-demo: not as it should be: {}\nThe driver's log ends:\n{}\n",
               walked.error().text, (*node)->driver_log());
    return 1;
  }
  say("done", "every step was as expected");
  return 0;
}

constexpr const char* kUsage =
    "usage: dracpu-demo --driver PATH [--keep]\n"
    "  --driver PATH  the dracpu binary\n"
    "  --keep         leave the folder with configuration, state and logs\n";

int main_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--pause") {
      for (;;) ::pause();  // what a demo container runs
    } else if (arg == "--keep") {
      options.keep = true;
    } else if (arg == "--driver" && i + 1 < argc) {
      options.driver = argv[++i];
    } else if (arg.starts_with("--driver=")) {
      options.driver = arg.substr(arg.find('=') + 1);
    } else {
      const bool asked = arg == "--help" || arg == "-h";
      fmt::print(asked ? stdout : stderr, "{}", kUsage);
      return asked ? 0 : 2;
    }
  }
  if (::access(options.driver.c_str(), X_OK) != 0) {
    fmt::print(stderr, "dracpu-demo: no driver binary at \"{}\"\n{}", options.driver.string(), kUsage);
    return 2;
  }
  (void)std::signal(SIGINT, on_interrupt);
  (void)std::signal(SIGTERM, on_interrupt);
  (void)std::signal(SIGPIPE, SIG_IGN);
  return run(options);
}

}  // namespace
}  // namespace dracpu::sandbox

int main(int argc, char** argv) { return dracpu::sandbox::main_of(argc, argv); }

// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// One random schedule in this process: the driver's books and services over a disk that fails, with deaths
// and power cuts between any two effects, and a world outside that remembers what it was told.
//
// World   What the kubelet was answered, which containers run with which CPUs, what the API server has. It
// outlives
//         the driver's lives and is compared with them after every step:
//         I2 no CPU in two hands; I3 what was answered as prepared is there, with the same CPUs; I4 no empty
//         set, and no content of the state file lost without a word.
// Excuses Only what the schedule took away by its own hand from both places, state file and CDI file, counts
// as lost. Threads One.

#ifndef DRACPU_CHAOS_SCHEDULE_H_
#define DRACPU_CHAOS_SCHEDULE_H_

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/node.h"
#include "base/cpuset.h"
#include "data/random.h"
#include "disk.h"
#include "life.h"
#include "report.h"

namespace dracpu::chaos {

struct Claim {
  // kAsked: prepare was called, or failed. kEnding: unprepare was called, or nobody relies on it any more.
  enum class Phase { kFresh, kAsked, kPrepared, kEnding, kGone };
  std::string name;
  std::string uid;
  std::string device;
  std::string share;
  std::size_t cpus = 1;
  bool in_api = true;
  Phase phase = Phase::kFresh;
  CpuSet answered;            // kPrepared: what its CDI file said when the answer came
  std::string pod;            // whose container has had it; empty: nobody's yet
  bool is_file_hurt = false;  // by the schedule; not mended yet
};

struct Box {
  std::string id;
  std::string pod;
  std::vector<std::string> uids;
  std::vector<std::string> env;
  std::string cpus;         // empty: the runtime's default
  bool is_demoted = false;  // its claim was lost from both places: it is a shared one now
  bool is_untold = false;   // there was no CPU that it could have been told
};

// What is the same for all schedules.
struct Bed {
  struct Variant {
    agent::Node node;
    std::shared_ptr<const agent::Machine> machine;
  };
  std::vector<Variant> variants;
  std::filesystem::path folder;

  static Result<Bed> make(const std::filesystem::path& folder);
};

class Schedule {
 public:
  Schedule(Bed& bed, std::uint64_t seed, Report& report);

  // False: a violation was reported.
  bool run();
  void leave_syncs_out() { disk_.leave_syncs_out(); }
  const std::vector<std::string>& trail() const { return trail_; }

 private:
  using Refs = std::vector<kubelet::ClaimRef>;
  struct Prepare {
    Refs refs;
    std::optional<kubelet::PrepareResults> results;
  };
  struct Read {
    std::string name;
    std::optional<Result<kube::Claim>> answer;  // made already
    std::function<void(Result<kube::Claim>)> done;
  };

  // schedule.cc: deaths, restarts, damage
  void step();
  void say(std::string text);
  void broken(std::string what);
  // An operation of this step has failed.
  bool was_disturbed();
  void arm();
  void settle_death();
  void note_death(bool power);
  void kill();
  void cut_power();
  void forget(bool power);
  void restart(bool power);
  void begin_life();
  void change_boot_id();
  void take_over_files();
  void hurt_something(bool power);
  void lose_both();
  void lose(Claim& claim);
  void hurt_state();
  void hurt_a_cdi_file();
  void wipe_cdi();
  void finish();

  // schedule_steps.cc
  Claim& new_claim();
  Claim& some_claim();
  void prepare();
  void prepare_changed_owned();
  void call_prepare(const Refs& refs, const std::shared_ptr<Prepare>& call);
  void take_answers(const Prepare& call, bool is_late = false);
  void let_reads_go();
  void unprepare();
  void call_unprepare(const Refs& refs);
  void create();
  void create_stranger();
  Box make_box(const std::string& pod, const std::vector<std::string>& uids);
  // False: it does not run.
  bool run_box(Box box, bool is_stranger);
  void stop_box();
  void update_box();
  void reconnect();
  void connect();
  void grow();
  void lose_claim();
  void jump_clock();
  void rewrite_cdi();
  void toggle_api();
  void read(const std::string& ns, const std::string& name, Deadline deadline,
            std::function<void(Result<kube::Claim>)> done);
  Result<kube::Claim> api_claim(const std::string& name) const;
  nri::ContainerInfo info_of(const Box& box) const;
  void apply(const std::vector<nri::ContainerUpdate>& updates);
  bool has_box(const std::string& uid) const;

  // schedule_checks.cc
  void check();
  void check_ledger();
  void check_files();
  void check_boxes();
  void check_start(const Life::Started& started);
  Claim* find(const std::string& uid);

  Bed& bed_;
  const std::uint64_t seed_;
  Report& report_;
  Random random_;
  const Bed::Variant& variant_;
  const std::filesystem::path state_path_;
  const std::filesystem::path cdi_path_;
  SimDisk disk_;
  bool is_cdi_volatile_ = false;

  std::deque<Claim> claims_;  // every uid there ever was
  std::map<std::string, Box> boxes_;
  std::deque<Read> held_reads_;
  std::vector<std::shared_ptr<Prepare>> open_calls_;
  bool hold_reads_ = false;
  bool is_api_down_ = false;
  bool is_faulty_ = false;  // an operation of this step failed, or the disk is out of order for a while
  std::size_t outage_ = 0;  // steps that the disk stays out of order
  std::size_t next_ = 0;    // for names
  std::chrono::seconds ahead_{0};

  // Of the state file, by the schedule, since the last start that succeeded.
  enum class Hurt { kNone, kGone, kDamaged };
  Hurt hurt_ = Hurt::kNone;
  bool hurt_had_claims_ = false;
  bool was_warned_ = false;
  bool is_new_boot_ = false;
  std::vector<std::string> aside_;  // contents that must lie beside the state file

  std::unique_ptr<Life> life_;
  std::string doing_;
  std::vector<std::string> trail_;
  bool is_broken_ = false;
};

}  // namespace dracpu::chaos

#endif  // DRACPU_CHAOS_SCHEDULE_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The frame of a schedule: steps, deaths, restarts, and what happens to the files while nobody runs.

#include "schedule.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "base/strings.h"
#include "cdi_view.h"
#include "clock.h"
#include "config/load.h"
#include "machine.h"
#include "store/state_file.h"

namespace dracpu::chaos {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOtherBoot = "another-boot";

std::string damaged(Random& random, std::string text, bool flip) {
  if (text.empty()) return text;
  if (!flip) return text.substr(0, random.pick(text.size()));
  char& byte = text[random.pick(text.size())];
  byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << random.pick(8)));
  return text;
}

Result<Bed::Variant> make_variant(const fs::path& folder, const sandbox::MachineShape& shape,
                                  const CpuSet& reserved) {
  const fs::path host = folder / fmt::format("host-{}x{}x{}", shape.sockets, shape.cores, shape.threads);
  if (Status s = sandbox::write_machine(host, shape); !s.ok()) return std::move(s).error();
  config::Config config;
  config.node.name = "node1";
  config.node.host_root = host;
  config.node.reserved_cpus = reserved;
  config.runtime.cdi_dir = folder / "cdi";
  config.runtime.kubelet_root_dir = folder / "kubelet";
  Result<agent::Node> node = agent::build_node(config);
  if (!node.ok()) return std::move(node).error();
  Result<std::shared_ptr<const agent::Machine>> machine = agent::read_machine(*node);
  if (!machine.ok()) return std::move(machine).error();
  return Bed::Variant{*std::move(node), *std::move(machine)};
}

}  // namespace

Result<Bed> Bed::make(const fs::path& folder) {
  Bed out;
  out.folder = folder;
  for (const sandbox::MachineShape& shape :
       {sandbox::MachineShape{1, 4, 2}, sandbox::MachineShape{2, 4, 1}, sandbox::MachineShape{1, 3, 2}}) {
    for (const CpuSet& reserved : {CpuSet{}, CpuSet{0}}) {
      Result<Variant> one = make_variant(folder, shape, reserved);
      if (!one.ok()) return std::move(one).error();
      out.variants.push_back(*std::move(one));
    }
  }
  return out;
}

Schedule::Schedule(Bed& bed, std::uint64_t seed, Report& report)
    : bed_(bed),
      seed_(seed),
      report_(report),
      random_(seed),
      variant_(random_.one_of(bed.variants)),
      state_path_(config::state_file(variant_.node.config)),
      cdi_path_(variant_.node.config.runtime.cdi_dir),
      disk_(random_),
      is_cdi_volatile_(random_.chance(60)) {
  std::error_code ec;
  fs::remove_all(bed_.folder / "cdi", ec);
  fs::remove_all(bed_.folder / "kubelet", ec);
}

void Schedule::say(std::string text) { trail_.push_back(std::move(text)); }

void Schedule::broken(std::string what) {
  if (std::exchange(is_broken_, true)) return;  // what follows is the same fault again
  report_.violation({"A", seed_, std::move(what), trail_});
}

bool Schedule::was_disturbed() {
  for (const std::string& fault : disk_.take_faults()) {
    report_.count("fault", fault);
    is_faulty_ = true;
  }
  return is_faulty_ || outage_ > 0;
}

bool Schedule::run() {
  say(fmt::format("node with CPUs {}, reserved {}, CDI folder {}", variant_.machine->managed.to_string(),
                  variant_.node.config.node.reserved_cpus.to_string(),
                  is_cdi_volatile_ ? "in memory" : "on disk"));
  doing_ = "start";
  if (random_.chance(25)) take_over_files();
  begin_life();
  if (!is_broken_) connect();
  const std::size_t steps = 10 + random_.pick(30);
  for (std::size_t i = 0; i < steps && !is_broken_; ++i) step();
  if (!is_broken_) finish();
  life_.reset();
  set_wall_clock_ahead(std::chrono::seconds(0));
  report_.count("run", "schedules");
  report_.count("run", "steps", steps);
  return !is_broken_;
}

void Schedule::step() {
  struct Kind {
    unsigned weight;
    const char* name;
    void (Schedule::*act)();
  };
  static constexpr Kind kKinds[] = {
      {24, "prepare", &Schedule::prepare},        {12, "unprepare", &Schedule::unprepare},
      {18, "create", &Schedule::create},          {4, "create stranger", &Schedule::create_stranger},
      {9, "stop", &Schedule::stop_box},           {3, "update", &Schedule::update_box},
      {5, "reconnect", &Schedule::reconnect},     {4, "grow", &Schedule::grow},
      {3, "lost claim", &Schedule::lose_claim},   {2, "wipe CDI", &Schedule::wipe_cdi},
      {3, "clock jump", &Schedule::jump_clock},   {2, "prepare changed", &Schedule::prepare_changed_owned},
      {3, "rewrite CDI", &Schedule::rewrite_cdi}, {5, "late reads", &Schedule::let_reads_go},
      {3, "API server", &Schedule::toggle_api},   {3, "kill", &Schedule::kill},
      {2, "power cut", &Schedule::cut_power},
  };
  unsigned sum = 0;
  for (const Kind& k : kKinds) sum += k.weight;
  std::size_t at = random_.pick(sum);
  const Kind* kind = kKinds;
  while (at >= kind->weight) at -= (kind++)->weight;
  doing_ = kind->name;
  report_.count("step", doing_);
  is_faulty_ = false;
  arm();
  (this->*kind->act)();
  if (life_) life_->settle();
  (void)was_disturbed();
  settle_death();
  if (outage_ > 0) --outage_;
  if (outage_ == 0) disk_.calm();
  if (!is_broken_) check();
}

void Schedule::arm() {
  static constexpr std::array kFaults = {Fault::kIo, Fault::kFull, Fault::kReadOnly, Fault::kShortWrite,
                                         Fault::kSync};
  static constexpr std::array kWheres = {Where::kBefore, Where::kInside, Where::kAfter};
  if (random_.chance(25)) {
    disk_.die_at(random_.pick(9), random_.one_of(kWheres));
  } else if (outage_ == 0 && random_.chance(14)) {
    disk_.fail_at(random_.pick(8), 1 + random_.pick(3), random_.one_of(kFaults));
  } else if (outage_ == 0 && random_.chance(3)) {
    outage_ = 2 + random_.pick(4);
    disk_.fail_at(0, 10000, random_.chance(50) ? Fault::kFull : Fault::kReadOnly);
    say("the disk is out of order for a while");
  }
}

void Schedule::settle_death() {
  if (!disk_.is_dead()) return;
  const bool power = random_.chance(45);
  note_death(power);
  restart(power);
}

void Schedule::note_death(bool power) {
  const std::string how = power ? "power cut" : "kill";
  report_.count("crash", "in an effect: " + how);
  report_.seen("crash", "distinct effect boundaries",
               fmt::format("{}: {}: {}", doing_, disk_.died_at(), how));
  say(fmt::format("  {} at {}", how, disk_.died_at()));
}

void Schedule::kill() {
  report_.count("crash", "between effects: kill");
  say("kill");
  restart(false);
}

void Schedule::cut_power() {
  report_.count("crash", "between effects: power cut");
  say("power cut");
  restart(true);
}

// The machine's part of a death; the driver's object has had its end already.
void Schedule::forget(bool power) {
  life_.reset();
  held_reads_.clear();
  open_calls_.clear();
  hold_reads_ = false;
  outage_ = 0;
  if (!power) return disk_.after_process_death();
  disk_.after_power_cut(is_cdi_volatile_ ? std::vector<fs::path>{cdi_path_} : std::vector<fs::path>{});
  boxes_.clear();
  change_boot_id();
  if (hurt_ == Hurt::kNone) return;
  aside_.clear();  // it need not have reached the disk
  if (is_cdi_volatile_) lose_both();
}

void Schedule::restart(bool power) {
  forget(power);
  if (random_.chance(25)) hurt_something(power);
  if (random_.chance(15)) create();  // nobody answers the runtime
  begin_life();
  if (!is_broken_ && random_.chance(85)) connect();
}

void Schedule::begin_life() {
  is_faulty_ = false;
  for (int attempt = 0;; ++attempt) {
    disk_.calm();
    if (attempt < 4) arm();
    const std::optional<std::string> state = slurp(state_path_);
    is_new_boot_ = state && state->find(kOtherBoot) != std::string::npos;
    life_ = std::make_unique<Life>(
        variant_.node, variant_.machine, disk_,
        [this](const std::string& ns, const std::string& name, Deadline deadline,
               std::function<void(Result<kube::Claim>)> done) { read(ns, name, deadline, std::move(done)); });
    const Result<Life::Started> started = life_->start([this](const std::vector<std::string>& warnings) {
      if (!disk_.is_dead() && !warnings.empty()) was_warned_ = true;
    });
    (void)was_disturbed();
    if (disk_.is_dead()) {
      const bool power = random_.chance(45);
      doing_ = "start";
      note_death(power);
      forget(power);
      continue;
    }
    outage_ = 0;
    disk_.calm();
    if (!started.ok()) {
      say("  does not start: " + started.error().text);
      report_.count("run", "starts refused");
      if (!is_faulty_)
        return broken("the driver does not start though nothing fails: " + started.error().text);
      life_.reset();
      continue;
    }
    report_.count("run", "starts");
    say(fmt::format("  starts with {} claims of the state file and {} of CDI files",
                    started->loaded.from_state, started->loaded.from_cdi));
    for (const std::string& w : started->loaded.warnings) say("    warning: " + w);
    return check_start(*started);
  }
}

void Schedule::change_boot_id() {
  const std::optional<std::string> bytes = slurp(state_path_);
  if (!bytes) return;
  Result<store::Unsealed> read = store::unseal(*bytes);
  const std::string key = "\"bootID\":\"";
  const std::size_t at = read.ok() ? read->payload.find(key) : std::string::npos;
  if (at == std::string::npos) return;
  const std::size_t begin = at + key.size();
  read->payload.replace(begin, read->payload.find('"', begin) - begin, kOtherBoot);
  disk_.put(state_path_, store::seal(read->payload));
}

// Claims of an older driver, which keeps no state: they are prepared, their files are all that says so.
void Schedule::take_over_files() {
  const bool in_one_file = random_.chance(50);
  CpuSet taken;
  std::map<std::string, CpuSet> all;
  for (std::size_t i = 0, n = 1 + random_.pick(2); i < n; ++i) {
    Claim& claim = new_claim();
    const device::Device& device = random_.one_of(variant_.machine->devices);
    const CpuSet cpus = (device.cpus - taken).lowest(1 + random_.pick(2));
    if (cpus.empty()) continue;
    taken |= cpus;
    claim.device = device.name;
    claim.cpus = cpus.size();
    claim.answered = cpus;
    claim.phase = Claim::Phase::kPrepared;
    all[claim.uid] = cpus;
    say(fmt::format("an older driver has prepared {} with {}", claim.uid, cpus.to_string()));
  }
  hurt_ = Hurt::kGone;  // there is only one copy until the first start is done
  if (in_one_file) disk_.put(cdi_path_ / "dra.cpu.json", cdi_text(all));
  for (const auto& [uid, cpus] : all) {
    if (!in_one_file)
      disk_.put(cdi_path_ / ("dra.k8s.io-cpu_claim-" + uid + ".json"), cdi_text({{uid, cpus}}));
  }
}

void Schedule::hurt_something(bool power) {
  if (hurt_ != Hurt::kNone) return;
  if (random_.chance(60)) {
    if (power && is_cdi_volatile_ && !random_.chance(15)) return;  // it is the only copy
    return hurt_state();
  }
  if (random_.chance(30)) return wipe_cdi();
  hurt_a_cdi_file();
}

// Nothing on disk tells of these claims any more.
void Schedule::lose_both() {
  for (Claim& claim : claims_) {
    if (claim.phase == Claim::Phase::kPrepared) lose(claim);
  }
}

void Schedule::lose(Claim& claim) {
  report_.count("damage", "claims whose state and CDI file were both taken away");
  claim.phase = Claim::Phase::kAsked;
  for (auto& [id, box] : boxes_) {
    if (std::find(box.uids.begin(), box.uids.end(), claim.uid) != box.uids.end()) box.is_demoted = true;
  }
}

void Schedule::hurt_state() {
  const std::optional<std::string> bytes = slurp(state_path_);
  if (!bytes) return;
  const auto files = claims_in_cdi(cdi_path_);
  bool has_claims = false;
  for (const Claim& claim : claims_) {
    if (claim.phase != Claim::Phase::kPrepared) continue;
    has_claims = true;
    const auto file = files.find(claim.uid);
    if (file != files.end() && file->second.front() != claim.answered) return;  // would be believed
  }
  for (const auto& [uid, sets] : files) {
    // A file of CPUs that were given up, which could be neither replaced nor removed: with the state gone too
    // it would be believed. Three faults at once are more than is promised.
    const bool is_in_the_way =
        std::any_of(claims_.begin(), claims_.end(), [&, &id = uid, &cpus = sets](const Claim& c) {
          return c.uid != id && c.phase == Claim::Phase::kPrepared && c.answered.intersects(cpus.front());
        });
    if (is_in_the_way) return;
  }
  for (Claim& claim : claims_) {
    if (claim.phase != Claim::Phase::kPrepared || files.contains(claim.uid)) continue;
    lose(claim);
  }
  const std::size_t way = random_.pick(3);
  report_.count("damage", way == 0   ? "state file deleted"
                          : way == 1 ? "state file cut"
                                     : "state file, a bit flipped");
  say(way == 0 ? "  the state file is deleted" : "  the state file is damaged");
  hurt_ = way == 0 ? Hurt::kGone : Hurt::kDamaged;
  hurt_had_claims_ = has_claims;
  if (way == 0) return disk_.erase(state_path_);
  const std::string left = damaged(random_, *bytes, way == 2);
  disk_.put(state_path_, left);
  if (has_claims) aside_.push_back(left);
}

void Schedule::hurt_a_cdi_file() {
  std::vector<Claim*> with_file;
  const auto path_of = [&](const Claim& c) {
    return cdi_path_ / ("dra.k8s.io-cpu_claim-" + c.uid + ".json");
  };
  for (Claim& claim : claims_) {
    if (fs::exists(path_of(claim))) with_file.push_back(&claim);
  }
  if (with_file.empty()) return;
  Claim& claim = *random_.one_of(with_file);
  claim.is_file_hurt = true;
  say("  the CDI file of " + claim.uid + " is damaged");
  const std::size_t way = random_.pick(3);
  report_.count("damage", way == 0   ? "CDI file deleted"
                          : way == 1 ? "CDI file cut"
                                     : "CDI file, a bit flipped");
  if (way == 0) return disk_.erase(path_of(claim));
  disk_.put(path_of(claim), damaged(random_, slurp(path_of(claim)).value_or(""), way == 2));
}

void Schedule::wipe_cdi() {
  report_.count("damage", "CDI folder wiped");
  say("  the CDI folder is wiped");
  for (Claim& claim : claims_) {
    if (claim.phase == Claim::Phase::kPrepared) claim.is_file_hurt = true;
  }
  disk_.erase_folder(cdi_path_);
}

// Everything ends well: all is given back, and nothing stays behind.
void Schedule::finish() {
  doing_ = "finish";
  say("the end");
  outage_ = 0;
  is_faulty_ = false;
  disk_.calm();
  is_api_down_ = hold_reads_ = false;
  let_reads_go();
  life_->settle();
  if (!life_->is_connected()) connect();
  while (!boxes_.empty() && !is_broken_) stop_box();
  Refs refs;
  for (const Claim& claim : claims_) refs.push_back({"ns", claim.name, ClaimUid(claim.uid)});
  call_unprepare(refs);
  if (is_broken_) return;
  forget(false);
  life_ = std::make_unique<Life>(variant_.node, variant_.machine, disk_,
                                 [](const std::string&, const std::string&, Deadline, auto) {});
  const Result<Life::Started> last = life_->start([](const auto&) {});
  if (!last.ok()) return broken("the last start fails: " + last.error().text);
  const CpuSet left = life_->books().with_ledger(
      [](const ledger::Ledger& l) { return l.managed() - l.reserved() - l.pool(); });
  if (!left.empty()) broken("everything was unprepared, but CPUs " + left.to_string() + " are held still");
  if (const auto files = claims_in_cdi(cdi_path_); !files.empty())
    broken("everything was unprepared, but there is a CDI file of " + files.begin()->first);
}

}  // namespace dracpu::chaos

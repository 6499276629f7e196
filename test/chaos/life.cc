// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "life.h"

#include <chrono>
#include <utility>

namespace dracpu::chaos {

Life::Life(const agent::Node& node, std::shared_ptr<const agent::Machine> machine, FileOps& disk,
           agent::ClaimReader reader)
    : node_(node),
      machine_(std::move(machine)),
      reader_(std::move(reader)),
      books_(node, *machine_, disk),
      runtime_(node, books_, worker_, metrics_, {[] {}, [](const std::string&) {}}) {}

Life::~Life() {
  resume();
  worker_.stop();
}

Result<Life::Started> Life::start(const std::function<void(const std::vector<std::string>&)>& log) {
  Result<agent::Books::Loaded> loaded = books_.load();
  if (!loaded.ok()) return std::move(loaded).error();
  log(loaded->warnings);
  Started out{*std::move(loaded), books_.rewrite_missing_cdi()};
  if (out.loaded.from_cdi > 0 || out.loaded.new_boot || !out.loaded.warnings.empty()) {
    if (Status s = books_.save(); !s.ok()) return std::move(s).error();
  }
  agent::ClaimService::Hooks hooks;
  hooks.may_prepare = [this] { return runtime_.may_prepare(); };
  hooks.pool_grew = [] {};  // its second of delay has no place here; the schedule grows the pool itself
  hooks.registration = [](bool, const std::string&) {};
  claims_ = std::make_unique<agent::ClaimService>(
      node_, machine_, books_, worker_, reader_,
      [](const kube::DeviceName&, Deadline, std::function<void(Result<std::vector<std::string>>)> done) {
        done(make_error(Errc::kUnavailable, "not asked for"));
      },
      metrics_, std::move(hooks));
  settle();
  return out;
}

Result<std::vector<nri::ContainerUpdate>> Life::connect(std::vector<nri::ContainerInfo> containers) {
  // Without a version nothing is pushed: what grew is carried by the next stop.
  runtime_.on_configure({"containerd", "v2.1.0", "", std::chrono::milliseconds(2000)});
  Result<std::vector<nri::ContainerUpdate>> updates =
      runtime_.on_synchronize(std::move(containers), Deadline::never());
  if (!updates.ok()) return updates;
  runtime_.on_synchronized();
  connected_ = true;
  rewrite_cdi();  // what the running containers decided
  settle();
  return updates;
}

void Life::disconnect() {
  if (!std::exchange(connected_, false)) return;
  runtime_.on_disconnect(make_error(Errc::kUnavailable, "end of stream"));
}

void Life::rewrite_cdi() {
  worker_.post([this] { (void)books_.rewrite_missing_cdi(); });
}

void Life::hold() {
  if (held_) return;
  held_.emplace();
  std::promise<void> begun;
  std::future<void> has_begun = begun.get_future();
  worker_.post([gate = held_->get_future().share(), &begun] {
    begun.set_value();
    gate.wait();
  });
  has_begun.wait();
}

void Life::resume() {
  if (!held_) return;
  held_->set_value();
  held_.reset();
}

void Life::settle() {
  std::promise<void> reached;
  std::future<void> done = reached.get_future();
  worker_.post([&reached] { reached.set_value(); });
  done.wait();
}

}  // namespace dracpu::chaos

// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// `dracpu upgrade identity`: the move of the driver to another name, the part that concerns the cluster.
//
// Order    The new name is in the driver's configuration and rolled out before anything of the old one goes.
//          Refused while a claim holds a device of the old name, and, when something is to be removed, while
//          a DaemonSet may still run under it. What cannot be read counts as a reason to refuse.
// Removes  ResourceSlices of the old driver, and the DeviceClass of its name when nothing refers to it; each
//          with uid and resourceVersion, so that an object that changed meanwhile stays. Nothing else.
// Errors   read_identity() as read_cluster(). A delete that fails is told in its Leftover.
// Threads  Reading and removing block the caller, not on the client's own thread; the rest is pure.

#ifndef DRACPU_UPGRADE_IDENTITY_H_
#define DRACPU_UPGRADE_IDENTITY_H_

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"
#include "kube/http_client.h"
#include "upgrade/facts.h"
#include "upgrade/reader.h"

namespace dracpu::upgrade {

struct Move {
  std::string from;
  std::string to;
};
// kInvalidInput: one of the names can be no driver's, or they are the same.
Status check_move(const Move& move);

struct IdentityFacts {
  Facts facts;
  std::vector<std::string> rights;  // roles and admission policies that name the old driver
};
Result<IdentityFacts> read_identity(kube::HttpClient& client, const Move& move, ReadOptions options);

struct Leftover {
  enum class Outcome { kPlanned, kRemoved, kGone, kFailed };
  std::string object;  // "ResourceSlice x"
  std::string path;
  std::string right;  // what a 403 lacks: "delete on resourceslices (resource.k8s.io)"
  Revision revision;
  Outcome outcome = Outcome::kPlanned;
  std::string why;  // of kFailed
};

struct IdentityPlan {
  Move move;
  std::vector<std::string> refusals;   // nothing is removed while there is one
  std::vector<std::string> still_old;  // why the old name may be at work; refuses the removal alone
  std::vector<Leftover> leftovers;     // in the order of removal
  std::vector<std::string> kept;
  std::vector<std::string> by_hand;
  std::vector<NotChecked> not_checked;
  bool is_asked = false;    // the removal was asked for
  bool is_applied = false;  // and done

  // The removal, if it is asked for; the plan alone can be shown while the old name is at work.
  bool is_refused() const { return !refusals.empty() || (is_asked && !still_old.empty()); }
  bool has_failed() const;
};
IdentityPlan plan_identity(const IdentityFacts& read, const Move& move);

// Only for a plan that is asked for and not refused.
void carry_out(kube::HttpClient& client, IdentityPlan& plan, std::chrono::milliseconds limit);

std::string to_text(const IdentityPlan& plan);
// {"from", "to", "applied", "refused": [TEXT], "stillOld": [TEXT], "remove": [{"object", "outcome", "why"}],
//  "kept": [TEXT], "byHand": [TEXT], "notChecked": [{"what", "why"}]}, one line, ended by a newline.
std::string to_json(const IdentityPlan& plan);

}  // namespace dracpu::upgrade

#endif  // DRACPU_UPGRADE_IDENTITY_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The ledger's claims as JSON, the payload of the state file.
//
// {"bootID":…,"node":…,"driver":…,"claims":[{"uid","namespace","name","cpus","owner":{"podUID","container"},
//  "preparedAt":seconds since 1970,"results":[{"request","pool","device","shareID","cpus"}]}],
//  "memoryClaims":[…]}, the last only where there are some (state_json.h).
// Fields that this release does not know, of a later minor version, are kept as text and written back.
// Errors  kCorrupt names the JSON path that is missing or has the wrong type.
// Threads Pure, but for load_state(), which is as the file's load().

#ifndef DRACPU_AGENT_STATE_CODEC_H_
#define DRACPU_AGENT_STATE_CODEC_H_

#include <map>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "ledger/ledger.h"
#include "memory/accounts.h"
#include "store/state_file.h"

namespace dracpu::agent {

// JSON objects of what is not known: of the whole, and by claim. Empty text: nothing.
struct UnknownFields {
  std::string top;
  std::map<ClaimUid, std::string> claims;
  std::map<ClaimUid, std::string> memory;  // of claims on memory
};

struct State {
  std::string boot_id;
  std::string node;
  std::string driver;
  std::map<ClaimUid, ledger::Claim> claims;
  std::map<ClaimUid, memory::Claim> memory{};
  UnknownFields unknown{};
};

std::string encode_state(const State& state);
Result<State> decode_state(std::string_view json);
// The file's content, decoded; every error names the file.
Result<State> load_state(store::StateFile& file);

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_STATE_CODEC_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Pieces of the state file's JSON that claims of all kinds share. Internal to this folder.
//
// Errors  kCorrupt, with the JSON path.
// Threads Pure.

#ifndef DRACPU_AGENT_STATE_JSON_H_
#define DRACPU_AGENT_STATE_JSON_H_

#include <boost/json.hpp>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/ids.h"
#include "base/result.h"
#include "memory/accounts.h"

namespace dracpu::agent {

Error bad(std::string_view path, std::string_view what);
Result<std::string> text(const boost::json::object& object, std::string_view key, std::string_view path);
Status optional_text(const boost::json::object& object, std::string_view key, std::string_view path,
                     std::optional<std::string>& out);
Status decode_owner(const boost::json::object& claim, const std::string& path, std::optional<Owner>& out);
void encode_owner(const std::optional<Owner>& owner, boost::json::object& claim);

// The members of `object` that are not in `known`.
boost::json::object others(const boost::json::object& object, std::initializer_list<std::string_view> known);
void add_missing(boost::json::object& to, const boost::json::object& from);
// What is not known of a claim and its results, as text; put_back() adds it again.
std::string unknown_of(const boost::json::object& claim, std::initializer_list<std::string_view> fields,
                       std::initializer_list<std::string_view> result_fields);
void put_back(boost::json::object& claim, const std::string& text);

// Claims on memory: {"uid","namespace","name","podUID","owner":{…},"results":[{"request","pool","device",
// "shareID","kind":"hugepages-2Mi","node":1,"bytes":N}]}.
boost::json::object encode_memory_claim(const ClaimUid& uid, const memory::Claim& claim);
Result<std::pair<ClaimUid, memory::Claim>> decode_memory_claim(const boost::json::value& value,
                                                               const std::string& path);
std::string unknown_of_memory_claim(const boost::json::object& claim);

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_STATE_JSON_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Bytes from the runtime: frames, messages, envelopes, payloads. The first byte chooses the step in which the
// rest is fed; cutting must not change what comes out.

#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "nri/messages.h"
#include "nri/mux.h"
#include "nri/ttrpc.h"

namespace {

using dracpu::nri::FrameParser;
using dracpu::nri::Message;
using dracpu::nri::MessageAssembler;

constexpr std::size_t kLimit = 4096;  // so that the fuzzer reaches oversized messages

void require(bool condition) {
  if (!condition) std::abort();
}

std::vector<Message> receive(std::string_view bytes, std::size_t step) {
  std::vector<Message> out;
  MessageAssembler one(kLimit);
  MessageAssembler two(kLimit);
  FrameParser frames;
  const auto keep = [&](Message message) { out.push_back(std::move(message)); };
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, step);
    bytes.remove_prefix(piece.size());
    const dracpu::Status ok = frames.feed(
        piece, [&](std::uint32_t id, std::string_view part) { (id == 1 ? one : two).feed(part, keep); });
    if (!ok) break;
  }
  return out;
}

void decode_payload(std::string_view payload) {
  (void)dracpu::nri::parse_configure(payload).ok();
  (void)dracpu::nri::parse_container(payload).ok();
  (void)dracpu::nri::parse_state_change(payload).ok();
  dracpu::nri::SyncSet set;
  if (set.add(payload).ok()) (void)set.take();
}

void decode(const Message& message) {
  require(message.data.size() <= kLimit);
  if (const auto request = dracpu::nri::parse_request(message.data); request.ok()) {
    (void)dracpu::nri::find_method(request->method);
    decode_payload(request->payload);
    // What is readable can be written and read again.
    const auto again = dracpu::nri::encode_request(1, *request);
    require(again.ok());
    const auto back = dracpu::nri::parse_request(std::string_view(*again).substr(10));
    require(back.ok() && back->payload == request->payload && back->method == request->method);
  }
  if (const auto response = dracpu::nri::parse_response(message.data); response.ok()) {
    require(dracpu::nri::is_utf8(response->text));
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  google::protobuf::SetLogHandler(nullptr);  // a line for every string that is not UTF-8
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::vector<Message> whole = receive(bytes, bytes.size() + 1);
  const std::vector<Message> pieces = receive(bytes, std::size_t{1} + data[0]);
  require(whole.size() == pieces.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    require(whole[i].data == pieces[i].data && whole[i].stream == pieces[i].stream);
    decode(whole[i]);
  }
  decode_payload(bytes);
  require(dracpu::nri::is_utf8(dracpu::nri::valid_utf8(bytes)));
  return 0;
}

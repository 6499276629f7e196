// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "nri/mux.h"

#include <algorithm>
#include <cstring>

namespace dracpu::nri {
namespace {

bool is_open(std::uint32_t connection) {
  return connection == kPluginConnection || connection == kRuntimeConnection;
}

Frame make_frame(std::uint32_t connection, std::string_view payload) {
  Frame frame;
  put_u32(frame.header.data(), connection);
  put_u32(frame.header.data() + 4, static_cast<std::uint32_t>(payload.size()));
  frame.payload = payload;
  return frame;
}

}  // namespace

void put_u32(char* at, std::uint32_t value) {
  for (int i = 3; i >= 0; --i, value >>= 8U) at[i] = static_cast<char>(value & 0xffU);
}

std::uint32_t get_u32(const char* at) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8U | static_cast<unsigned char>(at[i]);
  return value;
}

Status FrameParser::feed(std::string_view bytes, const Sink& sink) {
  while (!broken_ && !bytes.empty()) {
    if (payload_left_ > 0) {
      const std::string_view piece = bytes.substr(0, std::min(bytes.size(), payload_left_));
      bytes.remove_prefix(piece.size());
      payload_left_ -= piece.size();
      if (is_open(connection_)) {
        sink(connection_, piece);
      } else {
        dropped_bytes_ += piece.size();
      }
      continue;
    }
    const std::size_t take = std::min(bytes.size(), kFrameHeaderSize - header_used_);
    std::memcpy(header_.data() + header_used_, bytes.data(), take);
    bytes.remove_prefix(take);
    header_used_ += take;
    if (header_used_ < kFrameHeaderSize) break;
    header_used_ = 0;
    connection_ = get_u32(header_.data());
    payload_left_ = get_u32(header_.data() + 4);
    broken_ = payload_left_ > kMaxFramePayload;
  }
  if (!broken_) return ok_status();
  return make_error(Errc::kCorrupt, "frame of connection {} announces {} bytes, the limit is {}", connection_,
                    payload_left_, kMaxFramePayload);
}

MessageFrames::MessageFrames(std::uint32_t connection, std::string_view message) {
  frames_[0] = make_frame(connection, message.substr(0, kFirstFrameMax));
  if (message.size() <= kFirstFrameMax) return;
  frames_[1] = make_frame(connection, message.substr(kFirstFrameMax));
  count_ = 2;
}

std::string encode_message(std::uint32_t connection, std::string_view message) {
  std::string out;
  out.reserve(message.size() + 2 * kFrameHeaderSize);
  const MessageFrames cut(connection, message);
  for (const Frame& frame : cut.frames()) {
    out.append(frame.header.data(), frame.header.size());
    out.append(frame.payload);
  }
  return out;
}

}  // namespace dracpu::nri

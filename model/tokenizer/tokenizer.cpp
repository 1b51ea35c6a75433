// SPDX-License-Identifier: Apache-2.0
#include "model/tokenizer.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "checkpoint/strict_json.h"
#include "model/input_file.h"
#include "model/model_config.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/piece_encoder.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/ranked_tokens.h"
#include "tokenizer/seeded_hash.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/text_slices.h"
#include "tokenizer/tokenizer_spec.h"

namespace headscope::model {
namespace {

constexpr int64_t kMaxTokenizerBytes = 64 << 20;

// A piece's ids are looked up before it is merged again, since words repeat. Long pieces hardly ever do, and a text
// that repeats none must not fill the memory.
constexpr size_t kLongestKept = 32;  // bytes
constexpr size_t kMostKept = 1 << 16;

using KnownPieces = std::unordered_map<std::string, std::vector<int32_t>, SeededHash, std::equal_to<>>;

// What files that hold tokens alone do not say, tokenizer_config.json beside them does: which marks a prompt gets, and
// further names. `parse(text, path)`; without the file, `absent`.
template <typename Parse, typename Result>
Result ConfigBeside(const std::string& file, const Parse& parse, Result absent) {
  const std::filesystem::path path = std::filesystem::path(file).parent_path() / "tokenizer_config.json";
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) return absent;
  return parse(ReadSmallFile(path.string(), kMaxTokenizerBytes), path.string());
}

TokenizerSpec SpecOfTokens(std::string_view bytes, const std::string& path, const ModelConfig* config) {
  if (!IsRankedTokens(bytes) && path.ends_with(".model"))
    return ParseSentencePiece(bytes, path, ConfigBeside(path, &ParseSentencePieceEnds, SentencePieceEnds{}));
  RankedUse use;
  if (config != nullptr) {
    use.model_type = config->model_type;
    use.after_llama_3 = !config->ropes.empty() && config->ropes[0].type == RopeType::kLlama3;
  }
  use.names = ConfigBeside(path, &ParseNamesBeside, std::vector<AddedToken>{});
  return ParseRankedTokens(bytes, path, use);
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerSpec the_spec)
      : spec(std::move(the_spec)),
        pre_tokenizer(spec.pre_tokenizer),
        encoder(MakePieceEncoder(spec)),
        raw_tokens(spec.added_tokens, false, spec.normalizer),
        normalized_tokens(spec.added_tokens, true, spec.normalizer) {}

  TokenTable::Token TokenOf(int32_t id) const {
    const std::optional<TokenTable::Token> token = spec.tokens.Find(id);
    if (!token) throw std::out_of_range("token id " + std::to_string(id) + " is not in the vocabulary");
    return *token;
  }

  void EncodePiece(std::string_view piece, int64_t most, KnownPieces* known, std::vector<int32_t>* ids) const {
    const int64_t fewest = static_cast<int64_t>(ids->size()) + encoder->FewestTokens(piece.size());
    if (fewest > most) throw TooManyTokens(fewest);
    while (!piece.empty()) {
      const size_t part = encoder->Independent(piece);
      EncodePart(piece.substr(0, part), known, ids);
      piece.remove_prefix(part);
    }
  }

  void EncodePart(std::string_view piece, KnownPieces* known, std::vector<int32_t>* ids) const {
    const auto entry = piece.size() > kLongestKept ? known->end() : known->find(piece);
    if (entry != known->end()) {
      ids->insert(ids->end(), entry->second.begin(), entry->second.end());
      return;
    }
    const size_t before = ids->size();
    encoder->Encode(piece, ids);
    if (piece.size() <= kLongestKept && known->size() < kMostKept) {
      known->emplace(piece, std::vector<int32_t>(ids->begin() + static_cast<std::ptrdiff_t>(before), ids->end()));
    }
  }

  // What is between names goes through normalizer and pre-tokenizer, piece by piece.
  void EncodeSlice(std::string_view text, int64_t most, KnownPieces* known, std::vector<int32_t>* ids) const {
    raw_tokens.Cut(
        text,
        [&](std::string_view raw) {
          bool first = raw.data() == text.data();
          const std::string normal = spec.normalizer.empty() ? "" : Normalize(raw, spec.normalizer, &first);
          normalized_tokens.Cut(
              spec.normalizer.empty() ? raw : normal,
              [&](std::string_view plain) {
                pre_tokenizer.ForEachPiece(plain, std::exchange(first, false),
                                           [&](std::string_view piece) { EncodePiece(piece, most, known, ids); });
              },
              [&](int32_t id) {
                first = false;
                ids->push_back(id);
              });
        },
        [&](int32_t id) { ids->push_back(id); });
  }

  TokenizerSpec spec;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<PieceEncoder> encoder;
  AddedTokens raw_tokens;
  AddedTokens normalized_tokens;
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::Load(const std::string& path, const ModelConfig* config) {
  const std::string bytes = ReadSmallFile(path, kMaxTokenizerBytes);
  if (!path.ends_with(".model") && !path.ends_with(".tiktoken")) return Parse(bytes, path);
  return Tokenizer(std::make_unique<Impl>(SpecOfTokens(bytes, path, config)));
}

Tokenizer Tokenizer::Parse(std::string_view text, const std::string& file) {
  return Tokenizer(std::make_unique<Impl>(ParseTokenizerSpec(text, file)));
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, bool add_special_tokens, int64_t most) const {
  const Impl& m = *impl_;
  std::vector<int32_t> ids;
  if (add_special_tokens) ids = m.spec.template_before;
  KnownPieces known;
  const auto encode = [&](std::string_view slice) { m.EncodeSlice(slice, most, &known, &ids); };
  if (m.spec.in_slices) {
    ForEachSlice(text, encode);
  } else {
    encode(text);
  }
  if (add_special_tokens) ids.insert(ids.end(), m.spec.template_after.begin(), m.spec.template_after.end());
  return ids;
}

bool Tokenizer::Has(int32_t id) const {
  return impl_->spec.tokens.Find(id).has_value();
}

std::string Tokenizer::Decode(const std::vector<int32_t>& ids, bool keep_special_tokens) const {
  std::string bytes;
  for (const int32_t id : ids) {
    const std::optional<TokenTable::Token> token = impl_->spec.tokens.Find(id);
    if (!token || (token->special && !keep_special_tokens)) continue;
    if (impl_->spec.decoded_apart && !bytes.empty()) bytes += ' ';
    bytes += token->bytes;
  }
  if (impl_->spec.decoded_space_goes && bytes.starts_with(' ')) bytes.erase(0, 1);
  if (impl_->spec.decoded_end_goes && bytes.ends_with(' ')) bytes.pop_back();
  return bytes;
}

std::string Tokenizer::TokenBytes(int32_t id) const {
  return std::string(impl_->TokenOf(id).bytes);
}

int32_t Tokenizer::vocabulary_size() const {
  return impl_->spec.tokens.end_id();
}

}  // namespace headscope::model

// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/sentencepiece.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "checkpoint/strict_json.h"
#include "model/input_file.h"
#include "model/tokenizer.h"
#include "tokenizer/merge_finder.h"
#include "tokenizer/token_names.h"
#include "tokenizer/unicode_text.h"

namespace headscope::model {
namespace {

constexpr std::string_view kUseJson = "use the model's tokenizer.json";

// The fields of one message. Numbers are varints or four bytes; texts and messages are views into the file.
class Message {
 public:
  Message(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  // `visit(uint64_t field, uint64_t number, std::string_view text)`: of the two, what the field's encoding has.
  template <typename Visit>
  void ForEachField(const Visit& visit) const {
    for (size_t at = 0; at < bytes_.size();) {
      const uint64_t key = Varint(&at);
      uint64_t number = 0;
      std::string_view text;
      switch (key & 7) {
        case 0:
          number = Varint(&at);
          break;
        case 1:
          Take(8, &at);
          break;
        case 2:
          text = Take(Varint(&at), &at);
          break;
        case 5: {
          uint32_t little = 0;
          std::memcpy(&little, Take(4, &at).data(), sizeof little);
          number = little;
          break;
        }
        default:
          Damaged();
      }
      visit(key >> 3, number, text);
    }
  }

 private:
  [[noreturn]] void Damaged() const { Refuse(file_, "", "is not a SentencePiece model", kUseJson); }
  uint64_t Varint(size_t* at) const {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (*at == bytes_.size()) Damaged();
      const auto byte = static_cast<uint8_t>(bytes_[(*at)++]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    Damaged();
  }
  std::string_view Take(uint64_t count, size_t* at) const {
    if (count > bytes_.size() - *at) Damaged();
    *at += count;
    return bytes_.substr(*at - count, count);
  }
  std::string_view bytes_;
  const std::string& file_;
};

enum class PieceType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct Piece {
  std::string_view text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

struct Model {
  std::vector<Piece> pieces;
  bool is_unigram = true;
  bool is_known_kind = true;
  bool byte_fallback = false;
  int64_t unknown_id = 0, begin_id = 1, end_id = 2;
  bool suffix_marks = false;
  std::string_view map;
  bool dummy_prefix = true, joins_spaces = true, marks_spaces = true;
};

int64_t Signed(uint64_t number) {
  return std::bit_cast<int64_t>(number);
}

Model ReadModel(std::string_view bytes, const std::string& file) {
  constexpr size_t kMostPieces = 1 << 24;
  Model model;
  size_t count = 0;
  Message(bytes, file).ForEachField([&](uint64_t field, uint64_t, std::string_view) { count += field == 1 ? 1 : 0; });
  if (count > kMostPieces) Refuse(file, "pieces", "are more than 16 million", kUseJson);
  model.pieces.reserve(count);
  Message(bytes, file).ForEachField([&](uint64_t field, uint64_t, std::string_view text) {
    if (field == 1) {
      Piece piece;
      Message(text, file).ForEachField([&](uint64_t of_piece, uint64_t number, std::string_view part) {
        if (of_piece == 1) piece.text = part;
        if (of_piece == 2) piece.score = std::bit_cast<float>(static_cast<uint32_t>(number));
        if (of_piece == 3) piece.type = static_cast<PieceType>(std::min<uint64_t>(number, 255));
      });
      model.pieces.push_back(piece);
    } else if (field == 2) {
      Message(text, file).ForEachField([&](uint64_t of_trainer, uint64_t number, std::string_view) {
        if (of_trainer == 3) {
          model.is_unigram = number == 1;
          model.is_known_kind = number == 1 || number == 2;
        }
        if (of_trainer == 24) model.suffix_marks = number != 0;
        if (of_trainer == 35) model.byte_fallback = number != 0;
        if (of_trainer == 40) model.unknown_id = Signed(number);
        if (of_trainer == 41) model.begin_id = Signed(number);
        if (of_trainer == 42) model.end_id = Signed(number);
      });
    } else if (field == 3) {
      Message(text, file).ForEachField([&](uint64_t of_normalizer, uint64_t number, std::string_view part) {
        if (of_normalizer == 2) model.map = part;
        if (of_normalizer == 3) model.dummy_prefix = number != 0;
        if (of_normalizer == 4) model.joins_spaces = number != 0;
        if (of_normalizer == 5) model.marks_spaces = number != 0;
      });
    }
  });
  return model;
}

void CheckModel(const Model& model, const std::string& file) {
  if (model.pieces.empty()) Refuse(file, "pieces", "are missing", kUseJson);
  if (!model.is_known_kind) Refuse(file, "trainer_spec.model_type", "is neither BPE nor Unigram", kUseJson);
  if (!model.marks_spaces) Refuse(file, "normalizer_spec.escape_whitespaces", "false is not supported", kUseJson);
  if (model.suffix_marks) Refuse(file, "trainer_spec.treat_whitespace_as_suffix", "true is not supported", kUseJson);
  for (const Piece& piece : model.pieces) {
    const std::string name = "piece " + Quoted(piece.text);
    if (piece.text.size() > kLongestWord) Refuse(file, name, "has more than 512 bytes", kUseJson);
    if (piece.text.empty() || Utf8Length(piece.text) < piece.text.size())
      Refuse(file, name, "is empty or not UTF-8", kUseJson);
    if (piece.type < PieceType::kNormal || piece.type > PieceType::kByte)
      Refuse(file, name, "is of an unknown type", kUseJson);
    if (!std::isfinite(piece.score)) Refuse(file, name, "has a score that is not a number", kUseJson);
  }
}

// Every way to make a piece of two others; the better the piece's score, the earlier.
void AddMerges(const std::vector<Piece>& pieces, size_t file_size, const std::string& file, TokenizerSpec* spec) {
  std::vector<float> scores;
  for (const Piece& piece : pieces) {
    if (piece.type == PieceType::kNormal) scores.push_back(piece.score);
  }
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  const size_t most = file_size / 4 + 1024;  // memory follows the file's size
  const auto text_of = [&](size_t id) {
    return pieces[id].type == PieceType::kNormal ? pieces[id].text : std::string_view();
  };
  MergeFinder(pieces.size(), kLongestWord, text_of).ForEachMerge(true, [&](int32_t left, int32_t right, int32_t whole) {
    if (spec->merges.size() == most) Refuse(file, "pieces", "can be made of each other in too many ways", kUseJson);
    const float score = pieces[static_cast<size_t>(whole)].score;
    const auto rank = std::lower_bound(scores.begin(), scores.end(), score, std::greater<>()) - scores.begin();
    spec->merges.push_back({left, right, whole, static_cast<int32_t>(rank)});
  });
}

void AddPieces(const Model& model, size_t file_size, const std::string& file, TokenizerSpec* spec) {
  const size_t most_names = file_size / 64 + 1024;  // memory follows the file's size, and a name takes much of it
  double best = 0;                                  // of the scores of words
  bool any = false;
  for (const Piece& piece : model.pieces) {
    if (piece.type != PieceType::kNormal && piece.type != PieceType::kUserDefined) continue;
    best = any ? std::max<double>(best, piece.score) : piece.score;
    any = true;
  }
  spec->byte_ids.fill(-1);
  spec->tokens.Reserve(model.pieces.size());
  for (size_t index = 0; index < model.pieces.size(); ++index) {
    const Piece& piece = model.pieces[index];
    const auto id = static_cast<int32_t>(index);
    const int byte = ByteOfName(piece.text);
    switch (piece.type) {
      case PieceType::kControl:
      case PieceType::kUnknown:
        if (spec->added_tokens.size() > most_names) Refuse(file, "pieces", "hold too many whole names", kUseJson);
        spec->added_tokens.push_back({.content = std::string(piece.text), .id = id, .special = true});
        break;
      case PieceType::kUserDefined:
        if (model.is_unigram) break;  // a word among others, with a score that no others reach
        if (spec->added_tokens.size() > most_names) Refuse(file, "pieces", "hold too many whole names", kUseJson);
        spec->added_tokens.push_back(
            {.content = std::string(piece.text), .id = id, .normalized = true, .as_normalized = true});
        break;
      case PieceType::kByte:
        if (byte < 0) Refuse(file, "piece " + Quoted(piece.text), "is not a byte", kUseJson);
        spec->byte_ids[static_cast<size_t>(byte)] = id;
        break;
      case PieceType::kNormal:
        if (const Character c = FrontCharacter(piece.text); c.length == piece.text.size())
          spec->character_ids.emplace_back(c.code, id);
        break;
      case PieceType::kUnused:
        break;
    }
    const bool by_name = piece.type == PieceType::kControl || piece.type == PieceType::kUnknown;
    spec->tokens.Add(id, by_name ? std::string(piece.text) : BytesOfCharacters(piece.text), by_name);
    if (!model.is_unigram) continue;
    const bool whole = piece.type == PieceType::kUserDefined;
    if (whole || piece.type == PieceType::kNormal) spec->words.Add(id, piece.text, false);
    spec->scores.push_back(whole ? static_cast<double>(piece.text.size()) * best - 0.1 : piece.score);
  }
  std::sort(spec->character_ids.begin(), spec->character_ids.end());
  spec->tokens.Sort();
  spec->words.Sort();
  for (const AddedToken& token : spec->added_tokens) spec->added_only.push_back(token.id);
  std::sort(spec->added_only.begin(), spec->added_only.end());
  const auto missing = std::find(spec->byte_ids.begin(), spec->byte_ids.end(), -1);
  if (model.byte_fallback && missing != spec->byte_ids.end()) {
    Refuse(file, "pieces", "have none for the byte " + std::to_string(missing - spec->byte_ids.begin()), kUseJson);
  }
  if (!model.byte_fallback) spec->byte_ids.fill(-1);
}

std::shared_ptr<const SentencePieceRules> RulesOf(const Model& model, const std::string& file) {
  auto rules = std::make_shared<SentencePieceRules>();
  rules->joins_spaces = model.joins_spaces;
  rules->dummy_prefix = model.dummy_prefix;
  if (!model.map.empty()) {
    std::optional<CharacterMap> map = CharacterMap::Read(model.map);
    if (!map) Refuse(file, "normalizer_spec.precompiled_charsmap", "is not a character map", kUseJson);
    rules->map = std::make_shared<const CharacterMap>(std::move(*map));
  }
  for (const Piece& piece : model.pieces) {
    if (piece.type == PieceType::kUserDefined) rules->whole.emplace_back(piece.text);
  }
  if (!rules->whole.empty())
    rules->finder =
        std::make_shared<const TokenFinder>(std::vector<std::string_view>(rules->whole.begin(), rules->whole.end()));
  return rules;
}

// ChatGLM's names follow the pieces, in this order (tokenization_chatglm.py, published with its weights); a text cannot
// spell them. Returns the ids that go before every prompt.
std::vector<int32_t> AddChatGlmNames(int32_t first, TokenTable* tokens) {
  constexpr std::array<std::string_view, 9> kNames = {
      "[MASK]", "[gMASK]", "[sMASK]", "sop", "eop", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"};
  constexpr int32_t kMask = 1, kStart = 3;  // [gMASK] and sop among them
  for (size_t name = 0; name < kNames.size(); ++name)
    tokens->Add(first + static_cast<int32_t>(name), kNames[name], /*special=*/true);
  tokens->Sort();
  return {first + kMask, first + kStart};
}

}  // namespace

SentencePieceEnds ParseSentencePieceEnds(std::string_view text, const std::string& file) {
  const JsonTree json(text, file);
  const JsonFields root(json.Root(), file, "");
  return {root.Boolean("add_bos_token", true), root.Boolean("add_eos_token", false),
          root.Text("tokenizer_class", "") == "ChatGLMTokenizer"};
}

TokenizerSpec ParseSentencePiece(std::string_view bytes, const std::string& file, const SentencePieceEnds& ends) {
  const Model model = ReadModel(bytes, file);
  CheckModel(model, file);
  TokenizerSpec spec;
  spec.over_characters = true;
  spec.kind = model.is_unigram ? TokenKind::kUnigram : TokenKind::kBytePairs;
  AddPieces(model, bytes.size(), file, &spec);
  const auto count = static_cast<int64_t>(model.pieces.size());
  if (model.is_unigram) {
    spec.scores_in_single_precision = true;
    if (spec.words.count() == 0) Refuse(file, "pieces", "hold no word", kUseJson);
    if (model.unknown_id >= 0 && model.unknown_id < count) spec.unknown_id = static_cast<int32_t>(model.unknown_id);
  } else {
    AddMerges(model.pieces, bytes.size(), file, &spec);
    spec.by_bytes = model.byte_fallback;
    if (model.unknown_id >= 0 && model.unknown_id < count) spec.unknown_id = static_cast<int32_t>(model.unknown_id);
    spec.joins_unknown = true;
  }
  spec.normalizer.push_back(
      {.kind = NormalizerStep::Kind::kSentencePiece, .pattern = {}, .content = {}, .rules = RulesOf(model, file)});
  spec.decoded_space_goes = model.dummy_prefix;
  if (ends.chatglm) {
    spec.template_before = AddChatGlmNames(static_cast<int32_t>(count), &spec.tokens);
    return spec;
  }
  if (ends.begin && model.begin_id >= 0 && model.begin_id < count)
    spec.template_before.push_back(static_cast<int32_t>(model.begin_id));
  if (ends.end && model.end_id >= 0 && model.end_id < count)
    spec.template_after.push_back(static_cast<int32_t>(model.end_id));
  return spec;
}

}  // namespace headscope::model

#include "capture/tokenizer.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "checkpoint/input_file.h"
#include "tokenizer/bpe.h"
#include "tokenizer/splitter.h"
#include "tokenizer/tokenizer_spec.h"

namespace headscope::capture {
namespace {

constexpr int64_t kMaxTokenizerBytes = 64 << 20;

// Finds added tokens in text: the leftmost, and of those that begin there the longest.
class AddedTokenFinder {
 public:
  AddedTokenFinder(const std::vector<AddedToken>& tokens, bool normalized) {
    for (const AddedToken& token : tokens) {
      if (token.normalized == normalized) by_first_byte_[token.content.front()].push_back(&token);
    }
    for (auto& [byte, list] : by_first_byte_) {
      first_bytes_ += byte;
      std::stable_sort(list.begin(), list.end(),
                       [](const AddedToken* a, const AddedToken* b) { return a->content.size() > b->content.size(); });
    }
  }
  // The first token at or after `from`, with its position; {nullptr, npos} when there is none.
  std::pair<const AddedToken*, size_t> Find(std::string_view text, size_t from) const {
    for (size_t at = text.find_first_of(first_bytes_, from); at != std::string_view::npos;
         at = text.find_first_of(first_bytes_, at + 1)) {
      for (const AddedToken* token : by_first_byte_.at(text[at])) {
        if (text.substr(at).starts_with(token->content)) return {token, at};
      }
    }
    return {nullptr, std::string_view::npos};
  }

 private:
  std::unordered_map<char, std::vector<const AddedToken*>> by_first_byte_;
  std::string first_bytes_;
};

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerSpec the_spec)
      : spec(std::move(the_spec)),
        splitter(spec.split_pattern),
        merger(spec),
        raw_tokens(spec.added_tokens, false),
        normalized_tokens(spec.added_tokens, true) {
    special.resize(spec.token_bytes.size(), false);
    for (const AddedToken& token : spec.added_tokens) {
      if (token.special) special[static_cast<size_t>(token.id)] = true;
    }
  }
  const std::string& BytesOf(int32_t id) const {
    const bool known = id >= 0 && static_cast<size_t>(id) < spec.token_bytes.size() &&
                       !spec.token_bytes[static_cast<size_t>(id)].empty();
    if (!known) throw std::out_of_range("token id " + std::to_string(id) + " is not in the vocabulary");
    return spec.token_bytes[static_cast<size_t>(id)];
  }
  void EncodePlain(std::string_view text, std::unordered_map<std::string_view, std::vector<int32_t>>* known,
                   std::vector<int32_t>* ids) const {
    // Words repeat, so a piece's ids are looked up before they are merged again. Long pieces hardly ever do.
    constexpr size_t kLongestKept = 32;
    for (const std::string_view piece : splitter.Split(text)) {
      if (piece.size() > kLongestKept) {
        merger.Encode(piece, ids);
        continue;
      }
      const auto [entry, fresh] = known->try_emplace(piece);
      if (fresh) merger.Encode(piece, &entry->second);
      ids->insert(ids->end(), entry->second.begin(), entry->second.end());
    }
  }

  TokenizerSpec spec;
  Splitter splitter;
  BytePairMerger merger;
  AddedTokenFinder raw_tokens;
  AddedTokenFinder normalized_tokens;
  std::vector<bool> special;
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::Load(const std::string& tokenizer_json_path) {
  const std::string text = ReadSmallFile(tokenizer_json_path, kMaxTokenizerBytes);
  return Tokenizer(std::make_unique<Impl>(ParseTokenizerSpec(text, tokenizer_json_path)));
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, bool add_special_tokens) const {
  std::vector<int32_t> ids;
  if (add_special_tokens) ids = impl_->spec.template_before;
  std::unordered_map<std::string_view, std::vector<int32_t>> known;
  const auto cut = [](const AddedTokenFinder& finder, std::string_view whole, const auto& plain,
                      std::vector<int32_t>* out) {
    for (size_t at = 0; at < whole.size();) {
      const auto [token, found] = finder.Find(whole, at);
      plain(whole.substr(at, found == std::string_view::npos ? found : found - at));
      if (token == nullptr) return;
      out->push_back(token->id);
      at = found + token->content.size();
    }
  };
  cut(
      impl_->raw_tokens, text,
      [&](std::string_view between) {
        cut(
            impl_->normalized_tokens, between, [&](std::string_view plain) { impl_->EncodePlain(plain, &known, &ids); },
            &ids);
      },
      &ids);
  if (add_special_tokens) ids.insert(ids.end(), impl_->spec.template_after.begin(), impl_->spec.template_after.end());
  return ids;
}

std::string Tokenizer::Decode(const std::vector<int32_t>& ids, bool keep_special_tokens) const {
  std::string bytes;
  for (const int32_t id : ids) {
    const std::string& token = impl_->BytesOf(id);
    if (keep_special_tokens || !impl_->special[static_cast<size_t>(id)]) bytes += token;
  }
  return bytes;
}

std::string Tokenizer::TokenBytes(int32_t id) const {
  return impl_->BytesOf(id);
}

int32_t Tokenizer::vocabulary_size() const {
  return static_cast<int32_t>(impl_->spec.token_bytes.size());
}

}  // namespace headscope::capture

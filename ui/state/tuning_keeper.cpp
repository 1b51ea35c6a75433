// SPDX-License-Identifier: Apache-2.0
#include "tuning_keeper.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QUuid>
#include <utility>

#include "base/errors.h"
#include "kept_tuning.h"
#include "shown_text.h"

namespace headscope::ui {
namespace {

constexpr int64_t kMostTuningBytes = 20 << 20;  // room for the runs and notes of the trace stays in its file

}  // namespace

TuningKeeper::TuningKeeper(WindowState* state, TraceKeeper* keeper, QObject* parent)
    : QObject(parent), state_(state), keeper_(keeper) {
  HeadSweep* const sweep = &state->sweep;
  timer_.setSingleShot(true);
  connect(&timer_, &QTimer::timeout, this, &TuningKeeper::Write);
  connect(sweep, &HeadSweep::Began, this, &TuningKeeper::Begin);
  connect(sweep, &HeadSweep::Found, this, &TuningKeeper::Add);
  connect(sweep, &HeadSweep::Ended, this, &TuningKeeper::Write);
  connect(sweep, &HeadSweep::Saved, this, &TuningKeeper::Saved);
  connect(sweep, &HeadSweep::Clearing, this, &TuningKeeper::LetGo);
}

std::unique_ptr<OutputClaim> TuningKeeper::Claim(const QString& id) const {
  const QString beside = TraceKeeper::FileBeside(QString::fromStdString(state_->heads.trace().path));
  try {
    return std::make_unique<OutputClaim>((beside + u' ' + id).toStdString(), "kept-tuning");
  } catch (const UsageError&) {
    return nullptr;
  }
}

void TuningKeeper::Begin() {
  if (state_->sweep.kind() != HeadSweep::Kind::kTune || !id_.isEmpty()) return;
  id_ = QUuid::createUuid().toString(QUuid::WithoutBraces);
  claim_ = Claim(id_);
}

void TuningKeeper::Add(const TunedSetting& setting) {
  QJsonObject& json = found_[{setting.head, setting.lengths.from_tokens}];
  const auto size = [&json] { return json.isEmpty() ? 0 : QJsonDocument(json).toJson(QJsonDocument::Compact).size(); };
  bytes_ -= size();
  json = FoundAsJson(setting, state_->sweep.tuning(), state_->trial.methods());
  bytes_ += size();
  has_new_ = true;
  // The whole file is written each time: what is large already is written less often.
  constexpr int64_t kBytesAMillisecond = 256;
  if (!id_.isEmpty() && !timer_.isActive()) timer_.start(kWriteAfterMs + static_cast<int>(bytes_ / kBytesAMillisecond));
}

void TuningKeeper::Write() {
  timer_.stop();
  const HeadSweep& sweep = state_->sweep;
  if (id_.isEmpty() || sweep.NumUnsaved() == 0) return;
  const size_t failed = sweep.failed().size();
  if (!std::exchange(has_new_, false) && failed == failed_written_) return;
  failed_written_ = failed;
  if (bytes_ > kMostTuningBytes) {
    if (!std::exchange(is_too_large_, true)) {
      Q_EMIT Failed(tr("This tuning is too large to be kept with its trace beyond %1 heads: export it before the "
                       "window closes.")
                        .arg(CountText(static_cast<qint64>(sweep.NumUnsaved()))));
    }
    return;
  }
  QJsonArray found;
  for (const auto& [place, json] : found_) found.append(json);
  keeper_->KeepTuning(id_,
                      TuningAsJson(sweep.tuning(), state_->trial.methods(), sweep.chosen(), found, sweep.failed()));
}

void TuningKeeper::Saved() {
  if (id_.isEmpty()) return;
  timer_.stop();
  has_new_ = false;
  keeper_->DropTuning(id_);
}

void TuningKeeper::LetGo() {
  if (!id_.isEmpty() && state_->sweep.NumUnsaved() > 0) {
    if (goes_) {
      keeper_->DropTuning(id_);
    } else {
      Write();
    }
  }
  timer_.stop();
  id_.clear();
  claim_.reset();
  found_.clear();
  bytes_ = 0;
  failed_written_ = 0;
  goes_ = has_new_ = is_too_large_ = false;
}

TuningKeeper::Offer TuningKeeper::FindOffer(const TraceKeeper::Notes& tunings) const {
  Offer offer;
  constexpr std::ptrdiff_t kMostLookedAt = 64;  // a claim takes the system a moment, and the file is untrusted
  for (auto one = tunings.rbegin(); one != tunings.rend() && one - tunings.rbegin() < kMostLookedAt; ++one) {
    if (Claim(one->first) == nullptr) continue;
    QString why;
    bool lacks_method = false;
    const auto tuning = KeptTuning::FromJson(one->second, state_->heads.trace(), state_->trial.methods(),
                                             *state_->workbench, &why, &lacks_method);
    if (!tuning) {
      if (offer.wrong.isEmpty()) {
        offer.wrong = tr("A tuning kept with this trace was passed over: %1.").arg(why);
        if (!lacks_method) offer.wrong_id = one->first;
      }
      continue;
    }
    offer.id = one->first;
    const size_t done = tuning->NumTuned(), all = tuning->chosen.size();
    const QString what = tr("A tuning of %1 at %2")
                             .arg(TuningTitle(tuning->settings, state_->trial.methods()),
                                  QString::fromStdString(tuning->settings.target.Text()));
    const size_t failed = tuning->failed.size();
    if (done == all) {
      offer.sentence = tr("%1 was done for all %2 heads, and is in no file yet.").arg(what).arg(all);
    } else if (done + failed == all) {
      offer.sentence = tr("%1 was done for %2 of %3 heads, and is in no file yet.").arg(what).arg(done).arg(all);
    } else {
      offer.sentence = tr("%1 stopped after %2 of %3 heads when its window ended.").arg(what).arg(done).arg(all);
    }
    if (failed > 0) {
      const FailedHead& first = tuning->failed.front();
      offer.sentence +=
          (failed == 1 ? tr(" 1 head failed and is tried again")
                       : tr(" %1 heads failed and are tried again").arg(failed)) +
          tr(" when it is resumed: %1:%2: %3").arg(first.head.layer).arg(first.head.head).arg(Shown(first.sentence));
    }
    break;
  }
  return offer;
}

QString TuningKeeper::TakeUp(const QString& id) {
  std::unique_ptr<OutputClaim> claim = Claim(id);
  if (claim == nullptr) return tr("Another window has taken this tuning up: go on with it there.");
  const std::optional<QJsonObject> json = keeper_->FindTuning(id);
  if (!json) return tr("This tuning is no longer with its trace: another window has saved or discarded it.");
  QString why;
  const auto tuning =
      KeptTuning::FromJson(*json, state_->heads.trace(), state_->trial.methods(), *state_->workbench, &why);
  if (!tuning) return tr("This tuning was passed over: %1.").arg(why);
  state_->sweep.Restore(*tuning);
  id_ = id;
  claim_ = std::move(claim);
  has_new_ = false;  // it is in the file
  failed_written_ = 0;
  return {};
}

QString TuningKeeper::Discard(const QString& id) {
  const std::unique_ptr<OutputClaim> claim = Claim(id);
  if (claim == nullptr) return tr("Another window has taken this tuning up, and it is not discarded.");
  keeper_->DropTuning(id);
  return {};
}

}  // namespace headscope::ui

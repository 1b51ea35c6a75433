// SPDX-License-Identifier: Apache-2.0
#include "manual_dialog.h"

#include <QDesktopServices>
#include <QFile>
#include <QHBoxLayout>
#include <QRegularExpression>
#include <QScreen>
#include <QStringList>
#include <QTextDocument>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>

namespace headscope::ui {
namespace {

// Without the benchmarks, which are tables of one machine.
constexpr const char* kFiles[] = {"user_guide.md", "methods.md", "analysis.md",
                                  "figures.md",    "capture.md", "trace_format.md"};

QString MarkdownOf(const char* name) {
  QFile file(QStringLiteral(":/headscope/manual/") + QLatin1String(name));
  return file.open(QIODevice::ReadOnly) ? QString::fromUtf8(file.readAll()) : QString();
}

}  // namespace

QString HeadingAnchor(const QString& heading) {
  QString anchor;
  for (const QChar letter : heading.toLower()) {
    if (letter.isLetterOrNumber() || letter == u'-' || letter == u'_') anchor += letter;
    if (letter.isSpace()) anchor += u'-';
  }
  return anchor;
}

std::vector<ManualSection> SectionsOf(const QString& markdown) {
  static const QRegularExpression heading(QStringLiteral("^(#{1,3}) (.+)$"));
  static const QRegularExpression picture(QStringLiteral("^!\\[[^\\]]*\\]\\([^)]*\\)$"));
  std::vector<ManualSection> sections;
  bool in_code = false;
  for (const QString& line : markdown.split(u'\n')) {
    if (line.startsWith(QStringLiteral("```"))) in_code = !in_code;
    const QRegularExpressionMatch match = heading.match(line);
    if (!in_code && match.hasMatch()) {
      ManualSection& section = sections.emplace_back();
      section.heading = match.captured(2);
      section.level = static_cast<int>(match.captured(1).size());
    }
    if (!sections.empty() && !picture.match(line).hasMatch()) sections.back().markdown += line + u'\n';
  }
  return sections;
}

QString TablesAsLists(const QString& markdown) {
  static const QRegularExpression between(QStringLiteral("(?<!\\\\)\\|"));  // a bar that is not escaped
  static const QRegularExpression rule(QStringLiteral("^\\|[-:| ]+\\|$"));
  QStringList lines, titles;
  for (const QString& line : markdown.split(u'\n')) {
    if (!line.startsWith(u'|')) {
      titles.clear();
      lines.append(line);
      continue;
    }
    if (rule.match(line).hasMatch()) continue;
    QStringList cells = line.mid(1, line.lastIndexOf(u'|') - 1).split(between);
    for (QString& cell : cells) cell = cell.trimmed();
    if (titles.isEmpty()) {
      titles = cells;
      continue;
    }
    QStringList told;
    for (qsizetype i = 0; i < cells.size(); ++i) {
      const QString title = titles.value(i);
      if (!cells[i].isEmpty())
        told.append(i == 0 || title.isEmpty() ? cells[i] : title + QStringLiteral(": ") + cells[i]);
    }
    lines.append(QStringLiteral("- ") + told.join(QStringLiteral("; ")));
  }
  return lines.join(u'\n');
}

ManualDialog::ManualDialog(QWidget* parent)
    : QDialog(parent), search_(new QLineEdit), list_(new QListWidget), text_(new QTextBrowser), hits_(new QLabel) {
  setObjectName(QStringLiteral("manualDialog"));
  setWindowTitle(tr("Manual"));
  search_->setObjectName(QStringLiteral("manualSearch"));
  search_->setPlaceholderText(tr("Search the manual; Enter: next"));
  search_->setAccessibleName(tr("Search the manual"));
  search_->setClearButtonEnabled(true);
  hits_->setObjectName(QStringLiteral("manualHits"));
  list_->setObjectName(QStringLiteral("manualSections"));
  list_->setAccessibleName(tr("Sections"));
  text_->setObjectName(QStringLiteral("manualText"));
  text_->setAccessibleName(tr("Section"));
  text_->setOpenLinks(false);
  for (const char* file : kFiles) {
    for (ManualSection& section : SectionsOf(MarkdownOf(file)))
      entries_.push_back({QLatin1String(file), std::move(section)});
  }
  for (const Entry& entry : entries_) {
    auto* item = new QListWidgetItem(list_);
    QFont font = list_->font();
    font.setBold(entry.section.level == 1);
    item->setFont(font);
  }
  list_->setFixedWidth(fontMetrics().averageCharWidth() * 40);
  list_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  CountHits();
  auto* above = new QHBoxLayout;
  above->addWidget(search_, 1);
  above->addWidget(hits_);
  auto* beside = new QHBoxLayout;
  beside->addWidget(list_);
  beside->addWidget(text_, 1);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(8, 8, 8, 8);
  layout->addLayout(above);
  layout->addLayout(beside, 1);
  resize(QSize(980, 700).boundedTo(screen()->availableSize()));
  connect(list_, &QListWidget::currentRowChanged, this, &ManualDialog::Load);
  connect(search_, &QLineEdit::textChanged, this, &ManualDialog::CountHits);
  connect(search_, &QLineEdit::returnPressed, this, &ManualDialog::FindNext);
  connect(text_, &QTextBrowser::anchorClicked, this, &ManualDialog::Follow);
  list_->setCurrentRow(0);
}

bool ManualDialog::Show(const QString& file, const QString& anchor) {
  const auto is_of = [&](const Entry& entry) { return entry.file == file; };
  auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return is_of(entry) && HeadingAnchor(entry.section.heading) == anchor;
  });
  if (found == entries_.end()) found = std::find_if(entries_.begin(), entries_.end(), is_of);
  if (found == entries_.end()) return false;
  list_->setCurrentRow(static_cast<int>(found - entries_.begin()));
  return true;
}

void ManualDialog::ShowMethod(const QString& name) {
  const QString file = QStringLiteral("methods.md");
  const QRegularExpression whole(QStringLiteral("(?<![\\w-])%1(?![\\w-])").arg(QRegularExpression::escape(name)));
  for (QString ManualSection::*part : {&ManualSection::heading, &ManualSection::markdown}) {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.file == file && whole.match(entry.section.*part).hasMatch();
    });
    if (found == entries_.end()) continue;
    return list_->setCurrentRow(static_cast<int>(found - entries_.begin()));
  }
  Show(file);
}

void ManualDialog::Load(int entry) {
  if (entry < 0) return;
  // Read before it is shown: in a view, a long section was laid out anew for each of its paragraphs, 160 ms in all.
  auto* document = new QTextDocument(text_);
  document->setUndoRedoEnabled(false);
  document->setDefaultFont(text_->font());
  document->setMarkdown(TablesAsLists(entries_[static_cast<size_t>(entry)].section.markdown));
  QTextDocument* const before = text_->document();
  const bool is_ours = before->parent() == text_;  // the first one goes by itself
  text_->setDocument(document);
  if (is_ours) delete before;
}

void ManualDialog::CountHits() {
  const QString wanted = search_->text();
  qsizetype all = 0;
  for (int row = 0; row < list_->count(); ++row) {
    const ManualSection& section = entries_[static_cast<size_t>(row)].section;
    const qsizetype count = wanted.isEmpty() ? 0 : section.markdown.count(wanted, Qt::CaseInsensitive);
    const QString title = QString(2 * (section.level - 1), u' ') + section.heading;
    list_->item(row)->setText(count > 0 ? tr("(%1) %2").arg(count).arg(title.trimmed()) : title);
    list_->item(row)->setToolTip(section.heading);
    all += count;
  }
  hits_->setText(wanted.isEmpty() ? QString() : all == 1 ? tr("1 hit") : tr("%1 hits").arg(all));
}

void ManualDialog::FindNext() {
  const QString wanted = search_->text();
  if (wanted.isEmpty() || text_->find(wanted)) return;
  for (int step = 1; step <= list_->count(); ++step) {  // at last from the top of the section on show
    const int row = (list_->currentRow() + step) % list_->count();
    if (!entries_[static_cast<size_t>(row)].section.markdown.contains(wanted, Qt::CaseInsensitive)) continue;
    list_->setCurrentRow(row);
    text_->moveCursor(QTextCursor::Start);
    if (text_->find(wanted)) return;
  }
}

void ManualDialog::Follow(const QUrl& link) {
  if (!link.scheme().isEmpty()) {
    QDesktopServices::openUrl(link);
  } else {
    const QString file = link.path().isEmpty() ? entries_[static_cast<size_t>(list_->currentRow())].file : link.path();
    Show(file, link.fragment());
  }
}

}  // namespace headscope::ui

// SPDX-License-Identifier: Apache-2.0
// Methods that are made of files, and configurations that give each head a method of its own.
#include <QFileDialog>
#include <QFileInfo>
#include <QInputDialog>

#include "action_step.h"
#include "command_line.h"
#include "main_window.h"
#include "shown_text.h"

namespace headscope::ui {

void MainWindow::BindConfiguration() {
  HeadConfiguration* const configuration = &state_.configuration;
  commands_.Bind(Command::kSweepMeasure, [this, configuration](bool) {
    if (!MayDropTuning(tr("Measuring all heads discards it."))) return;
    if (configuration->in_use()) {
      state_.sweep.Measure(configuration->ShownHeads(), configuration->title());
    } else {
      state_.sweep.Start(HeadSweep::Kind::kMeasure);
    }
  });
  commands_.Bind(Command::kMethodFile, [this](bool) { OpenMethodFile(); });
  commands_.Bind(Command::kConfiguration, [this, configuration](bool) {
    if (configuration->in_use()) {
      configuration->Leave();
    } else {
      OpenConfiguration();
      UpdateConfiguration();  // the check mark waits for the file
    }
  });
  commands_.Bind(Command::kUseTuned, [this, configuration](bool) {
    configuration->Use(tr("what was tuned"), {}, state_.sweep.TunedHeads());
  });
  commands_.Bind(Command::kCopyConfigurationCommand, [this, configuration](bool) {
    CopyText(ConfigurationCommand(TracePath(), configuration->path(), configuration->ShownHeads(),
                                  state_.heads.trace().heads.size()));
  });
  connect(configuration, &HeadConfiguration::Changed, this, [this, configuration] {
    PushConfiguration();
    UpdateCommands();
    notice_->ShowMessage(configuration->in_use() ? tr("Each head has its own method. %1.").arg(configuration->Summary())
                                                 : tr("All heads have the panel's method."));
  });
}

void MainWindow::UpdateConfiguration() {
  const bool has_trace = state_.heads.HasTrace();
  const HeadConfiguration& configuration = state_.configuration;
  Allow(commands_[Command::kMethodFile], has_trace, tr("no trace is open"));
  Allow(commands_[Command::kConfiguration], has_trace, tr("no trace is open"));
  commands_[Command::kConfiguration]->setChecked(configuration.in_use());
  Allow(commands_[Command::kUseTuned], !state_.sweep.TunedHeads().empty(), tr("no head is tuned yet"));
  Allow(commands_[Command::kCopyConfigurationCommand], configuration.in_use() && !configuration.path().isEmpty(),
        configuration.in_use() ? tr("the configuration has not been saved: export it first")
                               : tr("no configuration is in use"));
}

MainWindow::KnownConfiguration MainWindow::PresentConfiguration() const {
  const HeadConfiguration& configuration = state_.configuration;
  return {configuration.title(), configuration.path(), configuration.settings(), state_.heads.selected(),
          state_.PresentMethod()};
}

void MainWindow::PushConfiguration() {
  KnownConfiguration before = known_configuration_;
  known_configuration_ = PresentConfiguration();
  if (configuration_is_no_step_) return;
  // That the head on show has another method by it is no step of its own.
  before.head = known_configuration_.head;
  before.method = state_.parameters.current();
  state_.parameters.Begin(known_configuration_.method);
  const QString what = known_configuration_.settings.empty() ? tr("end of the configuration %1").arg(before.title)
                                                             : tr("configuration %1").arg(known_configuration_.title);
  state_.parameters.stack()->push(new ActionStep(
      what, [this, before] { ApplyConfiguration(before); },
      [this, after = known_configuration_] { ApplyConfiguration(after); }, ActionStep::kDone));
}

void MainWindow::ApplyConfiguration(const KnownConfiguration& configuration) {
  configuration_is_no_step_ = true;
  if (configuration.settings.empty()) {
    state_.configuration.Leave();
  } else {
    state_.configuration.Use(configuration.title, configuration.path, configuration.settings);
  }
  configuration_is_no_step_ = false;
  // Another head than the one that was on show may have a method of its own by now.
  const std::optional<analysis::HeadId> head = state_.heads.selected();
  if (head && head != configuration.head && state_.configuration.Of(*head) != nullptr)
    return state_.parameters.Begin(state_.PresentMethod());
  // A method of a file may have to be read, and then comes later: it belongs to this step all the same.
  state_.parameters.Begin(configuration.method);
  state_.SetMethod(configuration.method);
}

void MainWindow::OpenMethodFile() {
  QStringList kinds;
  for (const MethodFile& kind : workbench_->method_files())
    kinds.append(
        QStringLiteral("%1 (*)").arg(QString::fromStdString(kind.help).replace(u'(', u'[').replace(u')', u']')));
  QString chosen;
  const QString folder = QFileInfo(TracePath()).path();
  const QString path =
      QFileDialog::getOpenFileName(this, tr("Method from a file"), folder, kinds.join(QStringLiteral(";;")), &chosen);
  const qsizetype kind = kinds.indexOf(chosen);
  if (path.isEmpty() || kind < 0) return;
  const std::string name = workbench_->method_files()[static_cast<size_t>(kind)].name;
  state_.ReadMethodFile(QString::fromStdString(name), path, [this](const QString& method) {
    state_.trial.SelectMethod(method.toStdString());
    UpdateCommands();
  });
}

void MainWindow::OpenConfiguration() {
  const QString path = QFileDialog::getOpenFileName(this, tr("Use a configuration"), QFileInfo(TracePath()).path(),
                                                    tr("Configurations (*.json *.csv);;All files (*)"));
  if (!path.isEmpty()) state_.configuration.Open(path);
}

}  // namespace headscope::ui

// SPDX-License-Identifier: Apache-2.0
// Writes state files one after another on a thread of its own, so that no disk and no other window's lock ever stops
// the window.
#pragma once

#include <QObject>
#include <QString>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

namespace headscope::ui {

class StateWriter : public QObject {
  Q_OBJECT

 public:
  using Work = std::function<QString()>;  // returns an empty string or one sentence
  using Done = std::function<void(const QString& error)>;

  explicit StateWriter(QObject* parent = nullptr);
  ~StateWriter() override;  // writes what still waits; nobody is told

  // Runs `work` on the thread, then `done` on the window's. Work of the same key that has not begun gives way to the
  // newer one, and its `done` is dropped.
  void Write(const QString& key, Work work, Done done = {});
  // Waits until everything is written, or for so long, and calls what is due. False when the time was too short.
  bool Finish(int at_most_ms);

 private:
  struct Job {
    QString key;
    Work work;
    Done done;
  };
  void Run();
  void TellAll();  // on the window's thread

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Job> waiting_;
  std::list<std::pair<Done, QString>> finished_;
  bool busy_ = false, stop_ = false;
  std::thread thread_;  // last: it uses what is above
};

}  // namespace headscope::ui

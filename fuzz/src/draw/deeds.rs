//! The draws of the tables' rows.

use std::sync::Arc;

use super::Draw;
use super::tables::At;
use crate::plan::{
    Asks, Await, Body, Deed, Fate, For, How, Rings, Settles, Touch, Waits, Watches, Way,
};

impl Draw {
    pub(super) fn send(&mut self, at: At) -> Deed {
        let limit = self.limit();
        let all = [
            How::Send,
            How::Send,
            How::Send,
            How::Tell,
            How::Post,
            How::PostTyped,
            How::Within(limit),
            How::TellWithin(limit),
            How::Recipient,
        ];
        Deed::Send { to: at.to, how: self.one(&all), letter: self.letter(at.depth) }
    }

    pub(super) fn send_many(&mut self, at: At) -> Deed {
        let letters = self.rng.usize(0..4);
        let letters = (0..letters).map(|_| self.letter(at.depth)).collect();
        Deed::SendMany { to: at.to, letters, iterator: self.mischief(at.depth) }
    }

    pub(super) fn ask(&mut self, at: At) -> Deed {
        let polled = self.chance(50).then(|| self.bell(at.depth));
        let all = [Asks::Call, Asks::Call, Asks::Ask, Asks::Ask, Asks::PostedCall, Asks::PostedAsk];
        let how = self.one(&all);
        Deed::Ask { to: at.to, how, letter: self.letter(at.depth), polled, then: self.fate() }
    }

    pub(super) fn with(&mut self, at: At) -> Deed {
        Deed::With { to: at.to, body: self.body(at.depth) }
    }

    pub(super) fn send_async(&mut self, at: At) -> Deed {
        Deed::SendAsync {
            to: at.to,
            what: self.one(&[Waits::Tell, Waits::Tell, Waits::Tell, Waits::Call, Waits::Ask]),
            letter: self.letter(at.depth),
            bell: self.bell(at.depth),
            then: self.fate(),
        }
    }

    pub(super) fn poll(&mut self, at: At) -> Deed {
        Deed::Poll { slot: at.slot, bell: self.bell(at.depth) }
    }

    pub(super) fn drop_future(&mut self, at: At) -> Deed {
        match self.chance(40) {
            true => Deed::CancelFuture { slot: at.slot },
            false => Deed::DropFuture { slot: at.slot },
        }
    }

    pub(super) fn forget_future(&mut self, at: At) -> Deed {
        Deed::ForgetFuture { slot: at.slot }
    }

    pub(super) fn drop_handle(&mut self, at: At) -> Deed {
        Deed::DropHandle { of: at.to }
    }

    pub(super) fn forget_handle(&mut self, at: At) -> Deed {
        Deed::ForgetHandle { of: at.to }
    }

    pub(super) fn upgrade(&mut self, at: At) -> Deed {
        Deed::Upgrade { of: at.to }
    }

    pub(super) fn close(&mut self, at: At) -> Deed {
        Deed::Close { of: at.to }
    }

    pub(super) fn stop(&mut self, at: At) -> Deed {
        Deed::Stop { of: at.to }
    }

    pub(super) fn wait_idle(&mut self, at: At) -> Deed {
        Deed::WaitIdle { of: at.to }
    }

    pub(super) fn wait_ended(&mut self, at: At) -> Deed {
        Deed::WaitEnded { of: at.to, limit: self.limit() }
    }

    pub(super) fn shut_down_system(&mut self, at: At) -> Deed {
        if self.systems == 0 {
            return self.pause(at);
        }
        Deed::ShutDownSystem { system: self.rng.usize(..self.systems), limit: self.limit() }
    }

    pub(super) fn drop_system(&mut self, at: At) -> Deed {
        if self.systems == 0 {
            return self.pause(at);
        }
        Deed::DropSystem { system: self.rng.usize(..self.systems) }
    }

    pub(super) fn shut_down_place(&mut self, at: At) -> Deed {
        Deed::ShutDownPlace { place: at.place, limit: self.limit() }
    }

    pub(super) fn run_queue(&mut self, at: At) -> Deed {
        let limit = self.limit();
        let limit = self.chance(25).then_some(limit);
        Deed::RunQueue { place: at.place, most: self.rng.u32(1..4), limit }
    }

    pub(super) fn advance(&mut self, _: At) -> Deed {
        Deed::Advance { micros: self.rng.u32(..5000) }
    }

    pub(super) fn blocking(&mut self, at: At) -> Deed {
        Deed::Blocking { body: self.body(at.depth) }
    }

    pub(super) fn elsewhere(&mut self, at: At) -> Deed {
        Deed::Elsewhere { body: self.body(at.depth), again: self.chance(20) }
    }

    pub(super) fn pause(&mut self, _: At) -> Deed {
        Deed::Pause { micros: self.one(&[0, 0, 10, 100, 500]) }
    }

    pub(super) fn order(&mut self, at: At) -> Deed {
        Deed::Order {
            to: at.to,
            letter: self.letter(at.depth),
            later: self.later(),
            bell: self.bell(at.depth),
            then: self.fate(),
        }
    }

    pub(super) fn settle(&mut self, at: At) -> Deed {
        let all = [
            Settles::Keep,
            Settles::Keep,
            Settles::Drop,
            Settles::Look,
            Settles::Claim,
            Settles::Claim,
        ];
        let forgets = self.chance(3);
        let how = if forgets { Settles::Forget } else { self.one(&all) };
        Deed::Settle { slot: at.slot, how }
    }

    pub(super) fn make_way(&mut self, at: At) -> Deed {
        let way = self.one(&[Way::Recipient, Way::Asks, Way::Asks, Way::Weak]);
        Deed::MakeWay { to: at.to, slot: at.slot, way }
    }

    pub(super) fn send_by(&mut self, at: At) -> Deed {
        Deed::SendBy { slot: at.slot, letter: self.letter(at.depth) }
    }

    pub(super) fn empty_way(&mut self, at: At) -> Deed {
        Deed::EmptyWay { slot: at.slot, drops: self.chance(60) }
    }

    pub(super) fn watch(&mut self, at: At) -> Deed {
        Deed::Watch {
            of: at.to,
            what: self.one(&[Watches::Idle, Watches::Ended]),
            bell: self.bell(at.depth),
            then: self.fate(),
        }
    }

    pub(super) fn close_system(&mut self, at: At) -> Deed {
        if self.systems == 0 {
            return self.pause(at);
        }
        Deed::CloseSystem {
            system: self.rng.usize(..self.systems),
            bell: self.bell(at.depth),
            then: self.fate(),
        }
    }

    pub(super) fn look(&mut self, at: At) -> Deed {
        Deed::Look { of: at.to, system: self.rng.usize(..2) }
    }

    pub(super) fn stop_weak(&mut self, at: At) -> Deed {
        Deed::StopWeak { of: at.to }
    }

    pub(super) fn spawn(&mut self, at: At) -> Deed {
        Deed::Spawn { of: at.to }
    }

    pub(super) fn drop_spawner(&mut self, _: At) -> Deed {
        Deed::DropSpawner { spawner: self.rng.usize(..self.spawners) }
    }

    pub(super) fn forget_spawner(&mut self, _: At) -> Deed {
        Deed::ForgetSpawner { spawner: self.rng.usize(..self.spawners) }
    }

    pub(super) fn drop_all(&mut self, at: At) -> Deed {
        Deed::DropAll { of: at.to }
    }

    pub(super) fn try_with(&mut self, at: At) -> Deed {
        Deed::TryWith { to: at.to, letter: self.letter(at.depth) }
    }

    pub(super) fn send_after(&mut self, at: At) -> Deed {
        let (typed, letter) = (self.chance(50), self.letter(at.depth));
        Deed::SendAfter { to: at.to, micros: at.micros, typed, letter, slot: at.kept }
    }

    pub(super) fn tell_every(&mut self, at: At) -> Deed {
        let (to, micros, slot) = (at.to, at.micros * 5, at.kept);
        Deed::TellEvery { to, micros, letter: self.letter(at.depth), slot }
    }

    pub(super) fn arm(&mut self, at: At) -> Deed {
        let (again, body) = (self.chance(25), self.body(at.depth));
        Deed::Arm { service: at.service, micros: at.micros, again, body, slot: at.kept }
    }

    pub(super) fn touch(&mut self, at: At) -> Deed {
        let all = [Touch::Cancel, Touch::Cancel, Touch::Reset(at.micros), Touch::Look, Touch::Drop];
        Deed::Touch { slot: at.slot, how: self.one(&all) }
    }

    pub(super) fn run_due(&mut self, _: At) -> Deed {
        Deed::RunDue
    }

    pub(super) fn advance_twice(&mut self, at: At) -> Deed {
        Deed::Advance { micros: at.micros * 2 }
    }

    pub(super) fn sleep(&mut self, at: At) -> Deed {
        // It keeps its service, and all that is armed there.
        let then = Some(self.fate()).filter(|fate| *fate != Fate::Forget);
        let (bell, then) = (self.bell(at.depth), then.unwrap_or(Fate::Drop));
        Deed::Sleep { service: at.service, micros: at.micros, bell, then }
    }

    pub(super) fn ask_async(&mut self, at: At) -> Deed {
        let polled = self.chance(40).then(|| self.bell(at.depth));
        let how = self.asks(at.to, at.slot);
        let letter = self.letter_for(how, at.depth);
        Deed::Ask { to: at.to, how, letter, polled, then: self.fate() }
    }

    pub(super) fn wait_for_turn(&mut self, at: At) -> Deed {
        if !self.awaits[at.to] {
            return self.ring(at);
        }
        Deed::SendAsync {
            to: at.to,
            what: self.one(&[Waits::Run, Waits::AskAsync]),
            letter: self.slow_letter(at.depth),
            bell: self.bell(at.depth),
            then: self.fate(),
        }
    }

    pub(super) fn ring(&mut self, at: At) -> Deed {
        let all = [
            Rings::Wake,
            Rings::Wake,
            Rings::ByRef,
            Rings::ByRef,
            Rings::Elsewhere,
            Rings::Drop,
            Rings::Clone,
            Rings::ForgetClone,
        ];
        Deed::Ring { slot: at.slot, how: self.one(&all) }
    }

    pub(super) fn give(&mut self, at: At) -> Deed {
        Deed::Give { slot: at.slot, keeps: self.chance(70) }
    }

    pub(super) fn abort(&mut self, at: At) -> Deed {
        Deed::Abort { slot: at.slot, stays: self.chance(30) }
    }

    pub(super) fn ask_and_wait(&mut self, at: At) -> Deed {
        let micros = self.rng.u32(100..2500);
        let limit = self.one(&[For::Micros(micros), For::Micros(micros), For::Ever]);
        let polled = self.chance(15).then(|| self.bell(at.depth));
        let how = self.one(&[Asks::Call, Asks::Ask]);
        let letter = self.letter(at.depth);
        Deed::Ask { to: at.to, how, letter, polled, then: Fate::Wait(limit) }
    }

    pub(super) fn ask_for_a_moment(&mut self, at: At) -> Deed {
        let limit = For::Micros(self.rng.u32(20..400));
        let letter = self.letter(at.depth);
        Deed::Ask { to: at.to, how: Asks::Call, letter, polled: None, then: Fate::Wait(limit) }
    }

    pub(super) fn wait_for_promise(&mut self, at: At) -> Deed {
        let micros = self.rng.u32(100..2500);
        let limit = self.one(&[For::Micros(micros), For::Ever, For::Ever]);
        Deed::WaitForPromise { by: at.to, letter: self.letter(0), limit }
    }

    pub(super) fn takes_time(&mut self, _: At) -> Deed {
        Deed::Pause { micros: self.one(&[100, 300, 300, 1000]) }
    }

    pub(super) fn watch_and_keep(&mut self, at: At) -> Deed {
        let (what, mut bell) = (Watches::Idle, self.bell(at.depth));
        // It is called as the mailbox is let go, and waits while another thread runs that.
        if self.chance(60) {
            let to = if self.chance(50) { at.to } else { self.rng.usize(..self.actors) };
            Arc::make_mut(&mut bell).woken = self.short_wait(to);
        }
        let watch = Deed::Watch { of: at.to, what, bell, then: Fate::Keep(at.slot) };
        // In a turn of that actor, another thread may wait for it.
        match self.chance(50) {
            true => Deed::Elsewhere { body: Body(vec![self.numbered(watch)]), again: false },
            false => watch,
        }
    }

    pub(super) fn await_own_wake(&mut self, _: At) -> Await {
        Await::Yield(self.one(&[1, 1, 2, 20]))
    }

    pub(super) fn await_thread(&mut self, _: At) -> Await {
        Await::Thread
    }

    pub(super) fn await_wake(&mut self, at: At) -> Await {
        Await::Keep(at.slot)
    }

    pub(super) fn await_gift(&mut self, at: At) -> Await {
        Await::Gift(at.slot)
    }

    pub(super) fn await_answer(&mut self, at: At) -> Await {
        if at.depth == 0 {
            return self.await_wake(at);
        }
        let how = self.asks(at.to, at.slot);
        Await::Ask { of: at.to, how, letter: self.letter_for(how, at.depth - 1) }
    }

    pub(super) fn await_room(&mut self, at: At) -> Await {
        if at.depth == 0 {
            return self.await_wake(at);
        }
        let all = [Waits::Tell, Waits::Call, Waits::Ask, Waits::Run, Waits::AskAsync];
        let what = self.one(&all[..if self.awaits[at.to] { 5 } else { 3 }]);
        let waits = matches!(what, Waits::Run | Waits::AskAsync);
        let less = at.depth - 1;
        let letter = if waits { self.slow_letter(less) } else { self.letter(less) };
        Await::Room { of: at.to, what, letter }
    }

    pub(super) fn await_watch(&mut self, at: At) -> Await {
        let what = self.one(&[Watches::Idle, Watches::Ended]);
        Await::Watch { of: at.to, what, leaves: self.chance(50).then_some(at.slot) }
    }

    pub(super) fn await_future(&mut self, at: At) -> Await {
        Await::Future(at.slot)
    }

    pub(super) fn await_sleep(&mut self, _: At) -> Await {
        Await::Sleep(self.rng.u32(1..1000))
    }

    pub(super) fn await_nobody(&mut self, _: At) -> Await {
        Await::Nobody
    }
}

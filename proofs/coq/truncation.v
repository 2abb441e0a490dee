(* A4: cutting a matrix off above the diagonal multiplies its norm by at most ceil(lg n) + 1. Over any ordered field;
   "norm at most c" is bounded c of lengths.v. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import masked backward lengths.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Truncation.
Variable R : realFieldType.

(* M o X with the 0-1 mask: the part of X on and below the diagonal. *)
Definition tril n (X : 'M[R]_n) := hadamard X (causal R n).

Lemma tril_block n1 n2 (A : 'M[R]_n1) B (C : 'M_(n2, n1)) (D : 'M_n2) :
  tril (block_mx A B C D) = block_mx (tril A) 0 0 (tril D) + block_mx 0 0 C 0.
Proof.
rewrite /tril causal_block hadamard_block add_block_mx !addr0 add0r; congr (block_mx _ _ _ _).
  by apply/matrixP => i j; rewrite !mxE mulr0.
by apply/matrixP => i j; rewrite !mxE mulr1.
Qed.

(* A4, one halving: L_n <= L_(n/2) + 1; l is any constant that serves both halves. *)
Theorem A4_halving n1 n2 l c (X : 'M[R]_(n1 + n2)) : 0 <= l -> 0 <= c ->
  (forall Y : 'M_n1, bounded c Y -> bounded (l * c) (tril Y)) ->
  (forall Y : 'M_n2, bounded c Y -> bounded (l * c) (tril Y)) ->
  bounded c X -> bounded ((l + 1) * c) (tril X).
Proof.
move=> l0 c0 h1 h2; rewrite -[X]submxK => /bounded_corners[/h1 b1 b21 /h2 b2].
by rewrite tril_block mulrDl mul1r; apply: boundedD; [rewrite mulr_ge0 | | apply: bounded_diag | apply: bounded_low].
Qed.

(* A4: ||tril X|| <= (ceil(lg n) + 1) ||X||. *)
Theorem A4 n (X : 'M[R]_n) c : 0 <= c -> bounded c X -> bounded ((up_log 2 n)%:R * c + c) (tril X).
Proof.
move=> c0; rewrite -[X in _ + X]mul1r -mulrDl.
have : (n <= 2 ^ up_log 2 n)%N by apply: up_logP.
move: (up_log 2 n) => D; elim: D n X => [|D IH] n X le hX.
  rewrite add0r mul1r (_ : tril X = X) //; apply/matrixP => i j.
  by rewrite !mxE (_ : j <= i)%N ?mulr1 // -ltnS (leq_trans (ltn_ord j)) // (leq_trans le).
have [n1 [n2 [en le1 le2]]] : exists n1 n2, [/\ n = (n1 + n2)%N, n1 <= 2 ^ D & n2 <= 2 ^ D]%N.
  exists n./2, (uphalf n); rewrite uphalf_half addnCA addnn odd_double_half -uphalf_half leq_uphalf_double.
  by rewrite -muln2 -expnSr le; split=> //; rewrite -(doubleK (2 ^ D)%N) -muln2 -expnSr half_leq.
have D0 : 0 <= D%:R + 1 :> R by rewrite addr_ge0 ?ler0n ?ler01.
by subst n; rewrite mulrSr; apply: A4_halving hX => // Y; apply: IH.
Qed.
End Truncation.
